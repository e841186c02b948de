"""Options of `ccp` that several commands share: one name, one short flag, one meaning each.

Use the options in annotations:

    seconds: Annotated[float, options.seconds("Time to send")] = options.in_unit(10, "s")
    window_ms: Annotated[float, options.duration("--window", unit="ms", help="Length of a window")] = 100

and `app.command(epilog=options.examples("ccp simulate cubic -t 2min"))` for the examples below the help.

A command gets the value in the unit that its parameter's name ends with. A bare number on the command
line is also in this unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from ccplane.base.errors import UsageError
from ccplane.base.units import Kind, parse
from ccplane.base.units import quantity as in_unit

__all__ = [
    "ADVANCED",
    "AsJson",
    "Connect",
    "DryRun",
    "Watch",
    "algorithm",
    "broker",
    "duration",
    "examples",
    "in_unit",
    "out",
    "param",
    "rate",
    "ratio",
    "seconds",
    "sender",
    "size",
]

ADVANCED: Final = "Advanced"
"""Panel of options that few users need."""

_COMPLETED: Final[dict[Kind, tuple[str, ...]]] = {
    "duration": ("us", "ms", "s", "min", "h"),
    "rate": ("kbit", "mbit", "gbit"),
    "size": ("kb", "mb", "gb"),
}


def examples(*commands: str) -> str:
    """Return commands as the `epilog` of a command's help, each on a line of its own, to be pasted."""
    return "\n\n".join(("Examples:", *(command.replace("[", "\\[") for command in commands)))


# --- durations, rates, sizes -------------------------------------------------------------------------------


def duration(
    *names: str,
    unit: str,
    help: str,
    min: float | None = None,
    max: float | None = None,
    whole: bool = False,
    panel: str | None = None,
    metavar: str = "DURATION",
    show_default: bool | str = True,
) -> Any:
    """Return an option for a duration, such as `50ms` or `2min`.

    Args:
        names: The option's names, such as `--window`.
        unit: Unit of the value and of a bare number: ns, us, ms, s, min, h or d.
        help: What the option sets; the unit of a bare number is added.
        min: The smallest value [unit].
        max: The largest value [unit].
        whole: Give the command an `int`, and refuse fractions of the unit.
        panel: Panel of the help.
        metavar: What stands for the value in the help.
        show_default: A text in place of the default, such as `unlimited`.
    """
    return _quantity("duration", names, unit, help, min, max, whole, panel, metavar, show_default)


def rate(
    *names: str,
    unit: str,
    help: str,
    min: float | None = None,
    max: float | None = None,
    whole: bool = False,
    panel: str | None = None,
    metavar: str = "RATE",
    show_default: bool | str = True,
) -> Any:
    """Return an option for a rate, such as `100mbit`; see `duration`. Units: kbit, mbit, gbit, bytes/s."""
    return _quantity("rate", names, unit, help, min, max, whole, panel, metavar, show_default)


def size(
    *names: str,
    unit: str = "b",
    help: str,
    min: float | None = None,
    max: float | None = None,
    whole: bool = True,
    panel: str | None = None,
    metavar: str = "SIZE",
    show_default: bool | str = True,
) -> Any:
    """Return an option for a size, such as `64kb`; see `duration`. Units: b, kb, mb, gb (powers of 1024)."""
    return _quantity("size", names, unit, help, min, max, whole, panel, metavar, show_default)


def ratio(
    *names: str,
    help: str,
    max: float = 1.0,
    panel: str | None = None,
    metavar: str = "RATIO",
    show_default: bool | str = True,
) -> Any:
    """Return an option for a fraction from 0 to `max`, written as `0.005` or as `0.5%`."""

    def parsed(text: Any) -> float:
        number, percent = str(text).strip(), 1.0
        if number.endswith("%"):
            number, percent = number[:-1], 0.01
        try:
            value = float(number) * percent
        except ValueError:
            raise _refused(names[0], text, "it is not a number such as 0.005 or 0.5%") from None
        if not 0 <= value <= max:
            raise _refused(names[0], text, f"it must be at least 0 and at most {max:g}")
        return value

    return typer.Option(
        *names,
        parser=parsed,
        metavar=metavar,
        help=f"{help.rstrip('.')}, such as 0.01 or 1%.",
        rich_help_panel=panel,
        show_default=show_default,
    )


def _quantity(
    kind: Kind,
    names: tuple[str, ...],
    unit: str,
    help: str,
    low: float | None,
    high: float | None,
    whole: bool,
    panel: str | None,
    metavar: str,
    show_default: bool | str,
) -> Any:
    bare = "bytes" if unit == "b" else unit
    return typer.Option(
        *names,
        parser=_parser(kind, names[0], unit, low, high, whole),
        autocompletion=_completion(kind),
        metavar=metavar,
        help=f"{help.rstrip('.')} (in {bare}, or with a unit).",
        rich_help_panel=panel,
        show_default=show_default,
    )


def _parser(
    kind: Kind, name: str, unit: str, low: float | None, high: float | None, whole: bool
) -> Callable[[Any], float]:
    def parsed(text: Any) -> float:
        # A default comes as a number.
        value = float(text) if isinstance(text, (int, float)) else parse(text, kind, unit, f"{name} {text}")
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = (
                "" if bound is None else f"{how} {bound:g}"
                for how, bound in (("at least", low), ("at most", high))
            )
            raise _refused(name, text, f"it must be {' and '.join(filter(None, bounds))} {unit}")
        if not whole:
            return value
        if value != int(value):
            raise _refused(name, text, f"it must be a whole number of {unit}")
        return int(value)

    return parsed


def _refused(name: str, text: Any, why: str) -> UsageError:
    return UsageError(
        "option.out_of_range", f"cannot use `{text}` for {name}", f"{name} {text}", why, "change the value"
    )


def _completion(kind: Kind) -> Callable[[str], list[str]]:
    def completed(incomplete: str) -> list[str]:
        number = incomplete.rstrip("abcdefghijklmnopqrstuvwxyz")
        return [number + unit for unit in _COMPLETED[kind]] if number else []

    return completed


# --- one name, one meaning ---------------------------------------------------------------------------------


def seconds(
    help: str = "Time to run",
    *,
    min: float | None = None,
    max: float | None = None,
    whole: bool = False,
    panel: str | None = None,
    show_default: bool | str = True,
) -> Any:
    """Return `-t/--seconds`: how long something runs, in s."""
    names = ("--seconds", "-t")
    return _quantity("duration", names, "s", help, min, max, whole, panel, "DURATION", show_default)


def out(
    help: str, *, metavar: str = "PATH", panel: str | None = None, show_default: bool | str = True
) -> Any:
    """Return `-o/--out`: the file or directory that results are written to."""
    return typer.Option(
        "--out", "-o", metavar=metavar, help=help, rich_help_panel=panel, show_default=show_default
    )


def param(
    help: str = "Set a parameter: NAME=VALUE or ALGORITHM.NAME=VALUE; repeatable.",
    *,
    metavar: str = "NAME=VALUE",
    panel: str | None = None,
) -> Any:
    """Return `-p/--param`: sets a parameter or a field; the command's value is a list of texts."""
    return typer.Option("--param", "-p", metavar=metavar, help=help, rich_help_panel=panel)


def algorithm(help: str = "Algorithm.", *, panel: str | None = None, show_default: bool | str = True) -> Any:
    """Return `-a/--algorithm`: an algorithm by name, or the algorithm whose flows are meant."""
    return typer.Option(
        "--algorithm",
        "-a",
        metavar="ALGORITHM",
        help=help,
        rich_help_panel=panel,
        show_default=show_default,
    )


def sender(default: str, *, panel: str | None = None) -> Any:
    """Return `--sender`: the name of this process on the telemetry bus; `default` describes the default."""
    return typer.Option(
        "--sender",
        metavar="NAME",
        help="Name of this sender on the telemetry bus.",
        show_default=default,
        rich_help_panel=panel,
    )


def broker(help: str = "Telemetry bus to publish to", *, panel: str | None = None) -> Any:
    """Return `--broker`: the URL of the telemetry bus."""
    return typer.Option(
        "--broker",
        metavar="URL",
        help=f"{help.rstrip('.')}: mqtt://HOST, or mqtts:// with TLS; USER:PASSWORD@ and :PORT are optional.",
        rich_help_panel=panel,
    )


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
"""`--json`: print JSON instead of text."""

Watch = Annotated[bool, typer.Option("--watch", "-w", help="Repeat until Ctrl-C.")]
"""`-w/--watch`: print the output repeatedly."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done; change nothing.")]
"""`--dry-run`: print what would be done."""

Connect = Annotated[
    str | None,
    typer.Option(
        "--connect",
        metavar="ADDRESS",
        help="Control endpoint of the agent, such as tcp://HOST:PORT.",
        show_default="the agent of --pin-dir",
    ),
]
"""`--connect`: the control endpoint of the agent."""
