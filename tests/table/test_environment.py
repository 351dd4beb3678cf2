"""Numbers in environment variables."""

import math

import pytest

from hudi_bridge.common.threads import number_in

_VARIABLE = "HUDI_BRIDGE_NUMBER_OF_THIS_TEST"


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), (" 7 ", 7), ("0", 2), ("-1", 2), ("", 5), ("many", 5), ("1.5", 5), ("inf", 5), ("nan", 5)],
)
def test_a_whole_number(monkeypatch: pytest.MonkeyPatch, text: str, number: int) -> None:
    monkeypatch.setenv(_VARIABLE, text)
    actual = number_in(_VARIABLE, 5, least=2)
    assert (actual, type(actual)) == (number, int)


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7.0), ("1.5", 2.0), ("2.5", 2.5), ("soon", 5.0), ("inf", math.inf), ("nan", 5.0)]
)
def test_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch, text: str, number: float) -> None:
    monkeypatch.setenv(_VARIABLE, text)
    actual = number_in(_VARIABLE, 5.0, least=2.0)
    assert (actual, type(actual)) == (number, float)


def test_without_the_variable_it_is_the_default_even_below_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_VARIABLE, raising=False)
    assert number_in(_VARIABLE, 1, least=2) == 1
