from __future__ import annotations

import math

import pytest

from ccplane.agent.monitor import units


def test_numbers_come_in_the_units_of_the_headings() -> None:
    assert units.kilobytes(144_800) == "144.8"
    assert units.mbits(1_250_000) == "10.00"
    assert units.milliseconds(20_500) == "20.50"
    assert units.percent(0.0012) == "0.12"


def test_large_numbers_have_fewer_decimals() -> None:
    assert units.mbits(125_000_000) == "1000.0"
    assert units.mbits(3_500_000_000) == "28000"


@pytest.mark.parametrize("missing", [None, math.nan])
def test_missing_number_is_a_dash(missing: float | None) -> None:
    assert units.kilobytes(missing) == units.mbits(missing) == units.percent(missing) == "–"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2404, "240 ms"), (1, "1 s"), (119, "119 s"), (600, "10 min"), (10_800, "3 h")]
)
def test_age_has_a_fitting_unit(seconds: float, text: str) -> None:
    assert units.age(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (True, "True"), (1_234_567, "1,234,567"), (0.123456789, "0.123457"), ("a\n b", "a b")],
)
def test_any_value_fits_on_a_line(value: object, text: str) -> None:
    assert units.plain(value) == text
