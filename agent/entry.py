"""Where `ccp` begins. Little is imported here, so that Ctrl-C in the first moments leaves no traceback."""

from __future__ import annotations

import sys
from typing import Final

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as of shells."""


def main() -> None:
    """Run `ccp`."""
    try:
        from agent.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
