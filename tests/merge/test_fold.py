"""The fold of all keys at once equals the plain rules, key by key."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.merge import fold
from hudi_bridge.merge.fold import FieldMerging, Versions, fold_fields, fold_versions
from hudi_bridge.merge.ordering import EARLIER, HIGHER, LATER, InLogs, field_source, survivor
from hudi_bridge.merge.rules import EVENT_TIME, PAYLOAD_RULES
from tests.support.strength import examples

OUTCOMES = st.tuples(*[st.sampled_from((EARLIER, LATER, HIGHER))] * 3)
IN_LOGS: dict[str, st.SearchStrategy[InLogs]] = {
    **{entry.rule.precedence.name: st.just(entry.rule.precedence.in_logs) for entry in PAYLOAD_RULES},
    "any": st.tuples(OUTCOMES, OUTCOMES, OUTCOMES),
}
"""The outcomes of each rule, and any that an entry could have."""
FIELDS = ("a", "b")


@st.composite
def cases(draw: st.DrawFn) -> tuple[Versions, FieldMerging]:
    keys = draw(st.integers(1, 12))
    codes = draw(st.permutations([*range(keys), *draw(st.lists(st.integers(0, keys - 1), max_size=60))]))
    rows = len(codes)

    def flags(chance: int) -> Any:
        return np.array(draw(st.lists(st.integers(0, chance).map(lambda n: n == 0), min_size=rows, max_size=rows)))

    is_delete = flags(3)
    versions = Versions(
        codes=np.array(codes, dtype=np.int64),
        keys=keys,
        ranks=np.array(draw(st.lists(st.integers(-2, 3), min_size=rows, max_size=rows)), dtype=np.int64),
        is_delete=is_delete,
        always_deletes=is_delete & flags(1),
    )
    return versions, FieldMerging(unset={name: flags(1) for name in FIELDS}, newest=frozenset({"meta"}))


@pytest.mark.parametrize("narrow", [0, 3, 64])
@pytest.mark.parametrize("name", IN_LOGS)
def test_folding_equals_the_plain_rules(name: str, narrow: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "_NARROW_ROUND", narrow)

    @settings(max_examples=examples(40), deadline=None)
    @given(case=cases(), rule=IN_LOGS[name])
    def check(case: tuple[Versions, FieldMerging], rule: InLogs) -> None:
        versions, merging = case
        of_key = [np.flatnonzero(versions.codes == key) for key in range(versions.keys)]
        expected = [int(of_key[key][survivor(rule, plain(versions, of_key[key]))]) for key in range(versions.keys)]
        assert fold_versions(rule, versions).tolist() == expected
        survivors, sources = fold_fields(rule, versions, merging)
        assert survivors.tolist() == expected
        assert sources.keys() == {*FIELDS, "meta"}
        for field, of_field in sources.items():
            expected_sources = [
                field_source(
                    rule,
                    plain(versions, positions),
                    unset_of(merging, field, positions),
                    newest=field == "meta",
                )
                for positions in of_key
            ]
            pairs = zip(of_key, expected_sources, strict=True)
            assert of_field.tolist() == [int(positions[source]) for positions, source in pairs]

    check()


def plain(versions: Versions, positions: Any) -> list[Any]:
    return [versions.at(int(position)) for position in positions]


def unset_of(merging: FieldMerging, name: str, positions: Any) -> list[bool]:
    return [bool(merging.unset[name][position]) if name in merging.unset else False for position in positions]


def test_no_versions_have_no_survivors() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    flags = np.zeros(0, dtype=np.bool_)
    versions = Versions(codes=nothing, keys=0, ranks=nothing, is_delete=flags, always_deletes=flags)
    for entry in PAYLOAD_RULES:
        rule = entry.rule.precedence.in_logs
        assert fold_versions(rule, versions).tolist() == []
        assert fold_fields(rule, versions, FieldMerging(unset={"a": flags}))[1]["a"].tolist() == []


def test_many_keys_with_many_versions_are_folded_in_few_rounds() -> None:
    keys, times = 20_000, 5
    codes = np.tile(np.arange(keys), times)
    ranks = np.random.default_rng(7).integers(0, 3, keys * times)
    is_delete = np.zeros(keys * times, dtype=np.bool_)
    is_delete[: keys // 2] = True
    versions = Versions(codes=codes, keys=keys, ranks=ranks, is_delete=is_delete, always_deletes=is_delete)
    survivors = fold_versions(EVENT_TIME.in_logs, versions)
    for key in (0, keys // 2 - 1, keys // 2, keys - 1):
        positions = np.flatnonzero(codes == key)
        assert survivors[key] == positions[survivor(EVENT_TIME.in_logs, plain(versions, positions))]
