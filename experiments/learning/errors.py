"""Errors of learning environments, training and policies."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "learning.bad_domain": "a path, heuristic or number of worlds is invalid",
    "learning.no_file": "a file of a domain or reward cannot be read, or ccplane ships no file of that name",
    "learning.bad_reward": "a reward has no function, fails, or returns invalid numbers",
    "learning.no_checkpoint": "there is no checkpoint to resume from or to export",
    "learning.other_checkpoint": "a checkpoint was written with another configuration or version",
    "learning.exists": "the directory already holds a training",
    "learning.cannot_write": "a checkpoint or policy cannot be written",
}
"""Slug -> meaning; a test covers each."""


class LearningError(CcpError):
    """An environment or a training run is invalid or impossible."""
