"""What can be wrong with learning environments, training and policies."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "learning.bad_domain": "paths, peers or numbers of worlds that cannot be were asked for",
    "learning.no_file": "a file of a domain or reward cannot be read, or ccplane has none of that name",
    "learning.bad_reward": "a reward cannot be computed: no function, an error in it, or no numbers",
    "learning.no_checkpoint": "there is no checkpoint to go on from, or to export",
    "learning.other_checkpoint": "a checkpoint was made with another configuration or another version",
    "learning.exists": "there is a training in the directory already",
    "learning.cannot_write": "a checkpoint or policy cannot be written where it should be",
}
"""Slug -> what it means; each has a test that names it."""


class LearningError(CcpError):
    """An environment or a training cannot be."""
