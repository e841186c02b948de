"""Errors of benchmarks, in the form of `ccplane.base.errors`."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "bench.bad_options": "the options of a benchmark contradict each other",
    "bench.build_failed": "the revision to compare with cannot be built",
    "bench.cannot_compare": "this kernel cannot run two builds side by side",
    "bench.cannot_read": "a kept result of a benchmark cannot be read",
    "bench.disturbed": "too many rounds were disturbed by other processes",
    "bench.no_program_ran": "the kernel counted no run of the measured BPF programs",
    "bench.no_runs": "a folder has no runs to compare",
    "bench.not_kept": "a folder has no saved result of this name",
    "bench.unknown_name": "unknown benchmark or congestion control",
    "bench.unknown_revision": "unknown revision to compare with",
}
"""Slug -> what it means; each has a test that names it."""


class BenchError(CcpError):
    """A benchmark cannot produce its figures."""
