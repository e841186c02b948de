"""Errors of evaluations."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "evaluate.bad_baseline": "the baseline cannot be compared with this evaluation",
    "evaluate.bad_file": "a file does not contain an evaluation, or cannot be read",
    "evaluate.needs_root": "an evaluation on real sockets was started without root",
    "evaluate.no_case": "there is no scenario of this name to evaluate",
    "evaluate.no_controller": "the name is not a congestion control that can be evaluated",
    "evaluate.no_runs": "there is no run to evaluate",
    "evaluate.not_simulated": "the simulator does not have this congestion control",
    "evaluate.twice": "the same congestion control is named twice",
}
"""Slug -> meaning; a test covers each."""


class EvaluateError(CcpError):
    """An evaluation cannot be done, read or written."""
