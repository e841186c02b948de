"""Alarms of the suite `general` that are known, and their reasons."""

from __future__ import annotations

from typing import Final

KNOWN: Final[dict[str, dict[str, str]]] = {
    "aimd": {
        "reacts-to-ecn": "the example reads losses alone",
        "sends-no-burst-after-idle": "it sets its window once per round trip; each step is a burst",
    },
    "copa": {
        "keeps-losses-low-in-a-shallow-buffer": "the buffer holds less than `delta` asks for",
        "reacts-to-ecn": "only its delay target answers; marks change nothing",
        "slows-down-under-heavy-loss": "it answers losses only while it competes",
    },
    "flex_cubic": {
        "keeps-losses-low-among-several": "as in a shallow buffer",
        "keeps-losses-low-in-a-shallow-buffer": "a full queue that never doubles the RTT spares all losses",
        "leaves-reno-a-share": "it spares the losses that make Reno halve",
        "leaves-slow-start": "with a buffer of one BDP it depends on chance whether a loss is spared",
        "slows-down-under-heavy-loss": "random loss is what it is made for",
    },
    "hyvar": {
        "keeps-losses-low-in-a-shallow-buffer": "without a queue, its policy alone answers losses",
        "slows-down-under-heavy-loss": "without a queue, its policy alone answers losses",
    },
    "kernel/bbr": {
        "keeps-losses-low-among-several": "version 1 bounds nothing after losses (RFC 9743, 5.1.3)",
        "leaves-reno-a-share": "version 1 bounds nothing after losses",
    },
    "westwood": {
        "grows-again-after-idle": "its bandwidth estimate is low after an idle period",
    },
}
"""Algorithm -> case -> reason. Each alarm comes with at least one of the seeds 1 to 3, and no other does."""


def reason(suite: str, algorithm: str, case: str) -> str:
    """Return why an alarm is known; empty if it is not."""
    return KNOWN.get(algorithm, {}).get(case, "") if suite == "general" else ""
