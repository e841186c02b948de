"""What keys and typed lines ask for, as messages to the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ccplane.base.errors import UsageError
from ccplane.base.names import close_names
from ccplane.base.units import parse
from experiments.play.history import History
from experiments.play.messages import Message

FACTOR: Final = 1.25
"""Change of rate, RTT and buffer by a key."""

LOSSES: Final = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Loss ratios that keys step through."""

SPEEDS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Speeds that keys step through."""

PARAM_STEPS: Final = 20
"""Number of key presses from the minimum to the maximum of a parameter."""

PATH: Final = ("rate", "rtt", "loss", "buffer", "speed")
"""Names in typed lines, in addition to parameters."""

HELP: Final = (
    "↑↓ rate  ←→ RTT  l L loss  b B buffer  Tab - + parameter  q quit",
    ": type values, such as rate=20mbit loss=1%  space pause  < > speed  r restart",
)
"""Lines for the screen."""


class Controls:
    """The selected parameter, and messages for keys and typed lines."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._number = 0

    @property
    def selected(self) -> Message | None:
        """The parameter that + and - change; None if there is none with a number."""
        params = [one for one in self._history.state.get("params", []) if _is_number(one["value"])]
        return params[self._number % len(params)] if params else None

    def key(self, key: str) -> list[Message]:
        """Return what a key asks for."""
        state = self._history.state
        if not state:
            return []
        setting = state["setting"]
        path: dict[str, Callable[[], dict[str, Any]]] = {
            "up": lambda: {"rate_bytes_per_s": setting["rate_bytes_per_s"] * FACTOR},
            "down": lambda: {"rate_bytes_per_s": setting["rate_bytes_per_s"] / FACTOR},
            "right": lambda: {"rtt_us": round(setting["rtt_us"] * FACTOR)},
            "left": lambda: {"rtt_us": round(setting["rtt_us"] / FACTOR)},
            "L": lambda: {"loss": _step(LOSSES, setting["loss"], 1)},
            "l": lambda: {"loss": _step(LOSSES, setting["loss"], -1)},
            "B": lambda: {"buffer_bdp": setting["buffer_bdp"] * FACTOR},
            "b": lambda: {"buffer_bdp": setting["buffer_bdp"] / FACTOR},
        }
        if key in path:
            return [{"type": "path", **path[key]()}]
        if key in ("+", "=", "-"):
            return self._changed(-1 if key == "-" else 1)
        if key in ("<", ">", ",", "."):
            return [{"type": "speed", "value": _step(SPEEDS, state["speed"], 1 if key in ">." else -1)}]
        if key == "tab":
            self._number += 1
        if key == " ":
            return [{"type": "pause" if state["running"] else "resume"}]
        return [{"type": "restart"}] if key == "r" else []

    def _changed(self, sign: int) -> list[Message]:
        one = self.selected
        if one is None:
            return []
        low, high, value = one["min"], one["max"], one["value"]
        if low is not None and high is not None and high <= 20 * max(low, (high - low) / 20):
            step = (high - low) / PARAM_STEPS
        else:
            step = abs(value) / 10 or 1.0
        if isinstance(value, int):
            step = max(1, round(step))
        value = value + sign * step
        value = value if low is None else max(value, low)
        value = value if high is None else min(value, high)
        value = value if isinstance(one["value"], int) else float(f"{value:.6g}")
        return [{"type": "param", "name": one["name"], "value": value}]

    def typed(self, line: str) -> list[Message]:
        """Return what a typed line asks for: `rate=20mbit loss=1% decrease=0.8 speed=2`.

        Raises:
            CcpError: If the line cannot be parsed, or a name is unknown.
        """
        path: dict[str, Any] = {}
        others: list[Message] = []
        params = [one["name"] for one in self._history.state.get("params", [])]
        for word in line.split():
            name, equals, value = word.partition("=")
            if not equals or not value:
                raise UsageError(
                    "param.syntax",
                    f"cannot parse NAME=VALUE: `{word}`",
                    fix="write, for example, rate=20mbit rtt=80ms loss=1% buffer=2bdp decrease=0.8",
                )
            match name:
                case "rate":
                    path["rate_bytes_per_s"] = parse(value, "rate", "mbit") * 125_000
                case "rtt":
                    path["rtt_us"] = round(parse(value, "duration", "ms") * 1000)
                case "loss":
                    path["loss"] = _number(value.removesuffix("%"), word) / (
                        100 if value.endswith("%") else 1
                    )
                case "buffer":
                    path["buffer_bdp"] = _number(value.removesuffix("bdp"), word)
                case "speed":
                    others.append({"type": "speed", "value": _number(value, word)})
                case _ if name in params:
                    others.append({"type": "param", "name": name, "value": value})
                case _:
                    raise UsageError(
                        "param.unknown",
                        f"`{name}` is neither a parameter nor part of the path",
                        fix=close_names(name, (*PATH, *params)),
                    )
        return [*([{"type": "path", **path}] if path else []), *others]


def buffer_of(text: object) -> float:
    """Return a buffer in bandwidth-delay products, from `1`, `0.5bdp` and the like.

    Raises:
        UsageError: `option.bad_quantity`.
    """
    return _number(str(text).strip().lower().removesuffix("bdp"), f"--buffer {text}")


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            "option.bad_quantity",
            f"cannot parse the number `{text}`",
            where=where,
            fix="write a number such as 0.5",
        ) from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _step(values: tuple[float, ...], now: float, by: int) -> float:
    """Return the next value of a list in a direction, from a value that may be between two."""
    if by > 0:
        return next((value for value in values if value > now), values[-1])
    return next((value for value in reversed(values) if value < now), values[0])
