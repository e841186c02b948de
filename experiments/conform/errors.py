"""Errors of `ccp conform`."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "conform.bad_suite": "the file of a suite cannot be imported, or a case of it raised an exception",
    "conform.cannot_write": "the scenario or the plot of a failure cannot be written",
    "conform.no_cases": "the file of a suite defines no case",
    "conform.unknown_case": "a suite has no case of this name",
    "conform.unknown_suite": "there is no suite of this name, and no such file",
}
"""Slug -> meaning; a test covers each."""


class ConformError(CcpError):
    """A suite cannot run."""
