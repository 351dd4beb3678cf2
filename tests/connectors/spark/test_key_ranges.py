import random

import pytest

from hudi_bridge.connectors.spark.key_lookup import KeyRange, KeyRangeTree

LETTERS = {"ascii": "abcdz", "every order": "a\ue000\uffff\U00010000\U0010ffff"}


def in_order(key: str, one: KeyRange, order: str) -> bool:
    least, text, greatest = (value.encode(order, "surrogatepass") for value in (one.least, key, one.greatest))
    return least <= text <= greatest


@pytest.mark.parametrize("letters", LETTERS.values(), ids=LETTERS)
def test_a_key_is_found_in_just_the_ranges_that_hold_it_in_either_order(letters: str) -> None:
    choice = random.Random(letters)

    def word() -> str:
        return "".join(choice.choices(letters, k=choice.randint(0, 4)))

    for _ in range(50):
        ranges = [KeyRange(least=word(), greatest=word(), index=index) for index in range(choice.randint(0, 30))]
        tree = KeyRangeTree.of(ranges)
        for key in [word() for _ in range(20)] + [item.least for item in ranges] + [item.greatest for item in ranges]:
            expected = [
                item.index for item in ranges if in_order(key, item, "utf-8") or in_order(key, item, "utf-16-be")
            ]
            assert tree.indexes(key) == expected


def test_a_deep_tree_takes_no_deep_recursion() -> None:
    ranges = [KeyRange(least=f"{index:07}", greatest=f"{index:07}z", index=index) for index in range(20_000)]
    tree = KeyRangeTree.of(ranges)
    assert tree.indexes("0012345a") == [12345]
    assert tree.indexes("x") == []
