"""Events that plots mark, such as a changed parameter, each with one line of text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

Kind = Literal["parameter", "version", "path", "error"]

Detail = Mapping[str, Any]
"""Details of an event; those of older agents may lack some."""


class Mark(NamedTuple):
    """What a plot shows at the time of an event.

    Attributes:
        kind: What changed, or that something failed.
        text: One line.
    """

    kind: Kind
    text: str


def mark_of(kind: str, algorithm: str, detail: Detail) -> Mark | None:
    """Return the mark of an event; None if plots do not mark it, such as a new flow."""
    if kind not in _MARKS:
        return None
    marked, text = _MARKS[kind]
    return Mark(marked, " ".join(text(algorithm, detail).split()))


def _set(algorithm: str, detail: Detail) -> str:
    return f"{algorithm}.{detail.get('name')} = {detail.get('value')}"


def _switched(algorithm: str, detail: Detail) -> str:
    before = detail.get("before")
    return f"{_flows(detail)} switched{f' from {before}' if before else ''} to {algorithm}"


def _refused(algorithm: str, detail: Detail) -> str:
    return f"{algorithm}: new version refused: {detail.get('error', {}).get('message', '')}"


def _failed(algorithm: str, detail: Detail) -> str:
    return f"{algorithm}: {detail.get('error')} in {detail.get('callback')}, {detail.get('where')}"


def _flows(detail: Detail) -> str:
    n = detail.get("flows", 0)
    return "1 flow" if n == 1 else f"{n} flows"


def _sha256(detail: Detail) -> str:
    return str(detail.get("new_sha256", ""))[:8]


_MARKS: Final[Mapping[str, tuple[Kind, Callable[[str, Detail], str]]]] = {
    "param:set": ("parameter", _set),
    "algorithm:loaded": ("version", lambda algorithm, _: f"{algorithm} loaded"),
    "algorithm:reloaded": (
        "version",
        lambda algorithm, detail: f"{algorithm}: new version {_sha256(detail)}, {_flows(detail)}",
    ),
    "algorithm:switched": ("version", _switched),
    "program:replaced": (
        "version",
        lambda algorithm, detail: f"{algorithm}: fold program {detail.get('program')} replaced",
    ),
    "canary:started": ("version", lambda algorithm, _: f"{algorithm}: trial of a new version began"),
    "canary:widened": ("version", lambda algorithm, _: f"{algorithm}: all flows have the new version"),
    "canary:taken_back": ("version", lambda algorithm, _: f"{algorithm}: all flows have the old version"),
    "algorithm:refused": ("error", _refused),
    "flow:failed": ("error", _failed),
    "flows:fallback": (
        "error",
        lambda _, detail: f"{_flows(detail)} moved to the fallback: {detail.get('cause')}",
    ),
}
"""Kind of an event -> kind and text of its mark."""
