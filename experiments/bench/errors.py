"""What can stand in the way of a benchmark, said as `ccp_base.errors` says such things."""

from __future__ import annotations

from typing import Final

from ccp_base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "bench.bad_options": "the options of a benchmark contradict each other",
    "bench.build_failed": "a revision to compare with cannot be built",
    "bench.cannot_compare": "a kept result says nothing of what it is to be compared with",
    "bench.cannot_keep": "the result of a benchmark cannot be written",
    "bench.cannot_read": "a kept result of a benchmark cannot be read",
    "bench.disturbed": "others used the machine so much that too few rounds count",
    "bench.no_example": "the program that is measured is not built",
    "bench.no_program_ran": "the kernel counted no run of the BPF programs whose time is asked for",
    "bench.peer_failed": "a simulator or an agent of others that is measured failed",
    "bench.unknown_name": "there is no such benchmark or congestion control",
    "bench.unknown_revision": "there is no revision or kept result of this name to compare with",
}
"""Slug -> what it means; each has a test that names it."""


class BenchError(CcpError):
    """A benchmark has no figure to print."""
