"""Where things are, and names for what is kept."""

from __future__ import annotations

import hashlib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = ROOT / ".cache" / "vm"


def digest(*parts: str) -> str:
    """Return a short name that changes with any of the parts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
