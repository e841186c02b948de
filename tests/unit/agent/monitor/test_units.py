from __future__ import annotations

import math

import pytest

from ccplane.agent.monitor import units


def test_numbers_come_in_the_units_of_the_headings() -> None:
    assert units.kilobytes(144_800) == "145"
    assert units.mbits(1_250_000) == "10.0"
    assert units.milliseconds(20_500) == "20.5"
    assert units.percent(0.0012) == "0.120"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.012345, "0.0123"),
        (9.999, "10.0"),
        (999.6, "1,000"),
        (28_345, "28,300"),
        (-1.234, "-1.23"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert units.number(value) == text


@pytest.mark.parametrize("missing", [None, math.nan])
def test_missing_number_is_a_dash(missing: float | None) -> None:
    assert units.kilobytes(missing) == units.mbits(missing) == units.percent(missing) == "–"
    assert units.size(missing) == units.rate(missing) == units.duration(missing) == "–"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.size(0), "0 B"),
        (units.size(144_800), "145 kB"),
        (units.size(999_700), "1.00 MB"),
        (units.rate(4_875_000), "39.0 Mbit/s"),
        (units.rate(60_000), "480 kbit/s"),
        (units.rate(3.5e9), "28.0 Gbit/s"),
        (units.duration(850), "850 µs"),
        (units.duration(20_500), "20.5 ms"),
        (units.duration(2_826_286), "2.83 s"),
    ],
)
def test_values_have_a_fitting_unit(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2404, "240 ms"), (1, "1 s"), (119, "119 s"), (600, "10 min"), (10_800, "3 h")]
)
def test_age_has_a_fitting_unit(seconds: float, text: str) -> None:
    assert units.age(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (1_234_567, "1,234,567"),
        (0.123456789, "0.123"),
        ("a\n b", "a b"),
        ({"a_us": 1, "b": 2.0}, "a_us 1, b 2"),
    ],
)
def test_any_value_fits_on_a_line(value: object, text: str) -> None:
    assert units.plain(value) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("w_max_bytes", 181_248, "181 kB"),
        ("k_s", 1.2384917, "1.24 s"),
        ("window_ms", 200, "200 ms"),
        ("bw_bytes_per_s", 5_963_935, "47.7 Mbit/s"),
        ("acked_pkts", 12, "12 packets"),
        ("losses_per_s", 12.5, "12.5"),
        ("is_full_s", True, "yes"),
        ("until_us", math.inf, "inf"),
        ("state_us", "cruise", "cruise"),
        ("epoch_start_us", None, "–"),
    ],
)
def test_a_value_has_the_unit_of_its_name(name: str, value: object, text: str) -> None:
    assert units.named(name, value) == text
