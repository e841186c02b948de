"""Messages to a page or a terminal, as JSON objects; `Session` documents those in the other direction."""

from __future__ import annotations

from typing import Any, Literal

from ccp_algs.api import AnyAlgorithm
from ccp_algs.params import params_of

Message = dict[str, Any]

Kind = Literal["save", "param", "path", "error"]
"""Kinds of marks."""


def mark(t_s: float, kind: Kind, text: str) -> Message:
    """Return a mark on the time axis."""
    return {"type": "mark", "t_s": t_s, "kind": kind, "text": text}


def failure(t_s: float, text: str) -> list[Message]:
    """Return what shows an error: a mark with its first line, and the whole text."""
    return [mark(t_s, "error", text.partition("\n")[0]), {"type": "error", "text": text}]


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
