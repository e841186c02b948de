"""The kernel's CUBIC as a congestion control in BPF, for as long as a benchmark needs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ccplane.base.native import native_part


@contextlib.contextmanager
def plain_cubic() -> Iterator[str]:
    """Offer it to sockets for the length of a block; yields its name.

    Raises:
        LoadError: If this kernel does not take it.
    """
    with native_part():
        from ccplane.base import _native
    offered = _native.PlainCubic()
    try:
        yield offered.name
    finally:
        offered.close()
