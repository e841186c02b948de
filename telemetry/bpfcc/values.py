"""Converts C structs to plain values, and their times to microseconds."""

from __future__ import annotations

import ctypes
import ipaddress
import sys
from collections.abc import Iterable
from typing import Any, Final

Value = Any
"""A JSON value."""

CLOCKS: Final = {"t_us": 1, "ts_us": 1, "t_ns": 1000, "ts_ns": 1000, "ts": 1000}
"""Field that holds an event's time -> its ticks per microsecond. bcc's examples use ns in `ts`."""

ADDRESSES: Final = frozenset({"saddr", "daddr", "saddr_v6", "daddr_v6"})
"""Fields with an IP address in network byte order, named as in the kernel's tracepoints."""


def plain(value: Any) -> Value:
    """Convert a ctypes value of a field, or of a key or value of a table, to plain data."""
    if isinstance(value, ctypes.Structure | ctypes.Union):
        return fields_of(value)
    if isinstance(value, ctypes.Array):
        return [plain(one) for one in value]
    if isinstance(value, bytes):  # of `char` and `s8`
        return int.from_bytes(value, sys.byteorder, signed=True)
    return getattr(value, "value", value)


def fields_of(struct: ctypes.Structure | ctypes.Union) -> dict[str, Value]:
    """Return the fields of a struct by name; arrays of char become text, addresses their usual notation."""
    found: dict[str, Value] = {}
    for entry in struct._fields_:
        name, kind = str(entry[0]), entry[1]
        if name.startswith("__pad"):
            continue
        value = getattr(struct, name)
        if getattr(kind, "_type_", None) is ctypes.c_char and issubclass(kind, ctypes.Array):
            found[name] = value.decode(errors="replace")
        else:
            found[name] = _address(value) if name in ADDRESSES else plain(value)
    return found


def clock_of(names: Iterable[str]) -> str | None:
    """Return the name of the field with an event's time; None if there is none."""
    known = set(names)
    return next((name for name in CLOCKS if name in known), None)


def _address(value: Any) -> Value:
    raw = value.to_bytes(4, sys.byteorder) if isinstance(value, int) else bytes(value)
    if len(raw) == 4:
        return str(ipaddress.IPv4Address(raw))
    if len(raw) == 16:
        address = ipaddress.IPv6Address(raw)
        return str(address.ipv4_mapped or address)
    return plain(value)
