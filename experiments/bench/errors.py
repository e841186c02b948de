"""What can stand in the way of a benchmark, said as `datapath.errors` says such things."""

from __future__ import annotations

from typing import Final

from datapath.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "bench.bad_options": "the options of a benchmark contradict each other",
    "bench.cannot_keep": "the result of a benchmark cannot be written",
    "bench.cannot_read": "a kept result of a benchmark cannot be read",
    "bench.disturbed": "others used the machine so much that too few rounds count",
    "bench.unknown_name": "there is no such benchmark, broker or congestion control",
}
"""Slug -> what it means; each has a test that names it."""


class BenchError(CcpError):
    """A benchmark has no figure to print."""
