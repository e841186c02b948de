"""The compiled module, as telemetry uses it: there is one, and what it raises has the shape of our errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ccplane.base.errors import CcpError
from telemetry.errors import TelemetryError


@contextmanager
def native(error: type[TelemetryError], not_built: str, where: str) -> Iterator[Any]:
    """Give the compiled module for the length of a block.

    Args:
        error: What errors of the module become; slug and sentences stay.
        not_built: Slug, where there is no such module.
        where: Who needs it.
    """
    try:
        from ccplane.base import _native
    except ImportError as lacking:
        raise error(
            not_built, "the native module is missing", where, str(lacking), "`make build`"
        ) from lacking
    try:
        yield _native
    except CcpError as raised:
        raise error(raised.slug, raised.message, raised.where, raised.why, raised.fix) from raised
