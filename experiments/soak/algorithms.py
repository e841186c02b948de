"""The algorithm of a soak test, and faulty versions that an agent must refuse."""

from __future__ import annotations

from typing import Final

NAME: Final = "soak"

_GOOD: Final = '''"""CUBIC with telemetry: version {version} of the soak test."""

from ccp_algs.api import TelemetrySample
from ccp_algs.cubic import Cubic
from ccp_algs.registry import register


@register("soak")
class Soak(Cubic):
    """CUBIC that counts its telemetry samples."""

    received = 0

    def on_telemetry(self, sample: TelemetrySample) -> None:
        self.received += 1
'''

_RAISES: Final = """
    def on_report(self, report):
        if self.flow.info.netns_inum > 1:  # the check's flows are in none
            raise ValueError("the soak's bad day")
        super().on_report(report)
"""

BAD: Final[tuple[tuple[str, str, str], ...]] = (
    ("a syntax error", "    received = 0", "    received = ("),
    ("a missing import", "ccp_algs.cubic", "ccp_algs.no_such_module"),
    ("no algorithm", "class Soak(Cubic)", "class Soak"),
    (
        "a callback that raises immediately",
        "    received = 0",
        "    def on_create(self, info):\n        1 / 0",
    ),
    ("a program that does not compile", "    received = 0", '    program = "(def (Report (acked 0)) (when"'),
)
"""Description of the fault, text of a good version, and its replacement."""


def good(version: int) -> str:
    """Return the source of a working version."""
    return _GOOD.format(version=version)


def raising(version: int) -> str:
    """Return the source of a version that passes the check but raises on real flows."""
    return good(version) + _RAISES


def bad(version: int, which: int) -> tuple[str, str]:
    """Return the fault and the source of a version that must be refused."""
    name, before, after = BAD[which % len(BAD)]
    return name, good(version).replace(before, after)
