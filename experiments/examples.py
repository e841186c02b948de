"""Programs that a checkout builds beside ccplane: examples of the crates in `native`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[1] / "native/target/release/examples"
"""Where a checkout has them."""


def build(crate: str, example: str) -> str:
    """Return the command that builds one, in a checkout."""
    return f"scripts/cargo.sh build --release --package {crate} --example {example}"


def is_built(program: Path) -> bool:
    """Return whether an example is there."""
    return os.access(program, os.X_OK)
