"""Folders of the virtual machines."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def _cache() -> Path:
    if chosen := os.environ.get("CCPLANE_VM_CACHE"):
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ccplane" / "vm"


CACHE = _cache()
"""Fetched and built files, shared by all checkouts; CCPLANE_VM_CACHE sets another folder."""
OUT = ROOT / ".cache" / "vm"
"""Output of machines."""


@contextmanager
def locked_cache() -> Iterator[None]:
    """Lock the cache against other checkouts."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def digest(*parts: str) -> str:
    """Return a short hash of the parts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
