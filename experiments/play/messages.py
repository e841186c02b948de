"""Messages to a page or a terminal, as JSON objects; `Session` documents those in the other direction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from ccp_algs.api import AnyAlgorithm
from ccp_algs.params import params_of
from ccplane.base.errors import CcpError, UsageError
from experiments.play.setting import Setting

Message = dict[str, Any]

Kind = Literal["save", "param", "path", "error"]
"""Kinds of marks."""

UNCHANGED: Final = "saved without a change"
RETURNED: Final = "the flows returned to the previous version"
FIRST_FAILED: Final = "the flows run the fallback, CUBIC, until the next version"
RIVAL_FAILED: Final = "its flow runs the fallback, CUBIC"


def mark(t_s: float, kind: Kind, text: str) -> Message:
    """Return a mark on the time axis."""
    return {"type": "mark", "t_s": t_s, "kind": kind, "text": text}


def failure(t_s: float, text: str) -> list[Message]:
    """Return what shows an error: a mark with its first line, and the whole text."""
    return [mark(t_s, "error", text.partition("\n")[0]), {"type": "error", "text": text}]


def answered(
    handled: Callable[[Mapping[str, Any]], list[Message]], message: Mapping[str, Any], t_s: float
) -> list[Message]:
    """Return what handling a message returns, or the messages for the error that it raises."""
    try:
        return handled(message)
    except CcpError as error:
        return failure(t_s, str(error))


def state(
    datapath: Literal["sim", "kernel"],
    t_s: float,
    algorithm: str,
    params: list[Message],
    setting: Setting,
    digest: str,
    *,
    running: bool = True,
    speed: float = 1.0,
) -> Message:
    """Return the state of a path and its flows."""
    return {
        "type": "state",
        "t_s": t_s,
        "params": params,
        "setting": setting.as_dict(),
        "algorithm": algorithm,
        "running": running,
        "speed": speed,
        "datapath": datapath,
        "digest": digest,
    }


def params(algorithm: AnyAlgorithm) -> list[Message]:
    """Return the parameters of an algorithm, with the values that apply to all flows."""
    return [
        {
            "name": name,
            "value": getattr(algorithm, name),
            "default": one.default,
            "min": one.min,
            "max": one.max,
            "unit": one.unit,
            "doc": one.doc,
        }
        for name, one in params_of(algorithm).items()
    ]


def failed(name: str, detail: Mapping[str, Any], outcome: str) -> str:
    """Return the text for an event `flow:failed` of an algorithm."""
    where = f" ({detail['where']})" if detail["where"] else ""
    return f"{name}.{detail['callback']} raised {detail['error']}{where}; {outcome}"


def not_understood(message: Mapping[str, Any]) -> UsageError:
    """Return the error for a message of no known type, or with wrong fields."""
    return UsageError(
        "play.bad_message",
        f"cannot understand the message {str(dict(message))[:80]}",
        fix="see `Session` in experiments/play/session.py for the messages and their fields",
    )
