"""Example programs of the crates in `native`, which a checkout can build."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[1] / "native/target/release/examples"
"""Directory of the built examples in a checkout."""


def build(crate: str, example: str) -> str:
    """Return the command that builds an example, in a checkout."""
    return f"scripts/cargo.sh build --release --package {crate} --example {example}"


def is_built(program: Path) -> bool:
    """Return whether an example is built."""
    return os.access(program, os.X_OK)
