"""Access to the native module, with its errors converted to telemetry's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ccplane.base.errors import CcpError
from telemetry.errors import TelemetryError


@contextmanager
def native(error: type[TelemetryError], not_built: str, where: str) -> Iterator[Any]:
    """Yield the native module for a `with` block."""
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
