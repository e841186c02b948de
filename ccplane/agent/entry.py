"""Entry point of `ccp`. Little is imported here, so that Ctrl-C in the first moments leaves no traceback."""

from __future__ import annotations

import os
import sys
from typing import Final

from ccplane.base import ending

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as in shells."""


def main() -> None:
    """Run `ccp`."""
    # NumPy would start threads for large matrices, which ccplane does not have. A thread that exists before
    # the agent drops its capabilities keeps them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    ending.as_exceptions()
    try:
        from ccplane.agent.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:  # an import failed; `ccp` itself prints other errors
        from ccplane.base.errors import CcpError

        if not isinstance(error, CcpError):
            raise
        print(error, file=sys.stderr)
        sys.exit(1)
