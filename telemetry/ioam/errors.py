"""Errors of in-band telemetry."""

from __future__ import annotations

from typing import Final

from telemetry.errors import TelemetryError

SLUGS: Final[dict[str, str]] = {
    "ioam.not_built": "the native module, which reads and writes packets, is missing",
    "ioam.not_ipv6": "a packet is not an IPv6 packet",
    "ioam.truncated": "a packet, header or option ends before a field does",
    "ioam.bad_length": "the length of an option or field disagrees with the data around it",
    "ioam.bad_value": "a field has a value that it must not have",
    "ioam.cannot_write": "a value cannot be written: it is out of range, or reserved for missing values",
    "ioam.cannot_insert": "a packet cannot have options: a fragment, a jumbogram, or authenticated",
    "ioam.cannot_read": "a file cannot be opened",
    "ioam.no_capture": "a file is neither pcap nor pcapng",
    "ioam.bad_option": "an option of the command line has an invalid value",
    "ioam.bad_block": "a block of a pcapng file is malformed, and was skipped",
    "ioam.broken_file": "a file ends in the middle of a packet, or has a wrong length in it",
}
"""Slug -> meaning; a test covers each."""


class IoamError(TelemetryError):
    """A packet, an option or a file cannot be read or written."""
