"""Durations, rates and sizes with units, as options of commands."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from ccplane.base import options
from ccplane.base.errors import UsageError
from ccplane.base.units import parse

app = typer.Typer(add_completion=False)


@app.command()
def command(
    seconds: Annotated[float, options.seconds("Time to send.")] = options.in_unit(10, "s"),
    beat_ms: Annotated[
        int, options.duration("--beat", unit="ms", help="Period", whole=True, min=1, max=5000)
    ] = 200,
    rate_mbit: Annotated[float, options.rate("--rate", unit="mbit", help="Rate")] = 100.0,
    buffer: Annotated[int | None, options.size("--buffer", help="Size", show_default="unlimited")] = None,
    param: Annotated[list[str] | None, options.param()] = None,
) -> None:
    print(seconds, beat_ms, rate_mbit, buffer, param)


def ran(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.strip()


@pytest.mark.parametrize(
    ("text", "kind", "unit", "value"),
    [
        ("50ms", "duration", "s", 0.05),
        ("1.5s", "duration", "ms", 1500),
        ("2min", "duration", "s", 120),
        ("200", "duration", "ms", 200),
        ("1 h", "duration", "min", 60),
        ("100mbit", "rate", "mbit", 100),
        ("1Gbit", "rate", "mbit", 1000),
        ("8mbit", "rate", "bytes/s", 1_000_000),
        ("64kb", "size", "b", 65_536),
        ("2MB", "size", "b", 2_097_152),
        ("1e3", "size", "b", 1000),
        ("200ms", "duration", "ms", 200),
        ("0.3ms", "duration", "us", 300),
    ],
)
def test_a_number_with_a_unit_is_converted(text: str, kind: object, unit: str, value: float) -> None:
    assert parse(text, kind, unit) == value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("soon", "duration", "does not begin with a number"),
        ("5 parsecs", "duration", "`parsecs` is not a unit of a duration"),
        ("5mbps", "rate", "bytes per second to `tc`"),
        ("5s", "size", "`s` is not a unit of a size"),
    ],
)
def test_an_error_says_why_and_which_units_there_are(text: str, kind: object, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, kind, {"duration": "s", "rate": "mbit", "size": "b"}[str(kind)], "--x")  # type: ignore[arg-type]
    assert caught.value.slug == "option.bad_quantity"
    assert why in caught.value.why
    assert "such as" in caught.value.fix


def test_values_arrive_in_the_unit_of_the_option() -> None:
    assert ran() == "10.0 200 100.0 None None"
    assert ran("-t", "2min", "--beat", "1s", "--rate", "1gbit", "--buffer", "64kb", "-p", "a=1") == (
        "120.0 1000 1000.0 65536 ['a=1']"
    )


@pytest.mark.parametrize("value", ["0.5", "1.5ms", "6s"])
def test_values_out_of_range_are_refused(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        ran("--beat", value)
    assert caught.value.slug == "option.out_of_range"
    assert caught.value.where == f"--beat {value}"


def test_the_help_shows_units_and_defaults() -> None:
    shown = " ".join(ran("--help").split())
    assert "in s, or with a unit" in shown
    assert "[default: 10s]" in shown
    assert "[default: (unlimited)]" in shown
