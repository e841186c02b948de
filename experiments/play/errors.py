"""Errors of `ccp play`."""

from __future__ import annotations

from typing import Final

SLUGS: Final[dict[str, str]] = {
    "play.bad_message": "a message to a running `ccp play` cannot be understood",
    "play.bad_setting": "a field of what is played is unknown, or its value is invalid",
    "play.no_file": "the algorithm to play is not in a file",
    "play.no_page": "the page for browsers is not installed",
    "play.real_time": "real sockets cannot be paused, slowed down or accelerated",
    "play.too_slow": "a callback of an algorithm was interrupted because it did not return",
}
"""Slug -> meaning; a test covers each."""
