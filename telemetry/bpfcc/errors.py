"""Errors of probes."""

from __future__ import annotations

from typing import Final

from telemetry.errors import TelemetryError

SLUGS: Final[dict[str, str]] = {
    "probe.no_text": "there is no probe to run, or two",
    "probe.no_bcc": "bcc, of the distribution, is missing",
    "probe.wrong_bcc": "Python's module `bcc` is another project's",
    "probe.no_headers": "the headers of the running kernel are missing",
    "probe.not_permitted": "only root may attach probes",
    "probe.no_kprobes": "the kernel was built without kprobes",
    "probe.not_compiled": "the C text does not compile",
    "probe.refused": "the kernel refused the program",
    "probe.not_attached": "the kernel function or tracepoint is not there, or cannot be probed",
    "probe.attaches_to_nothing": "no function of the text says where it belongs",
    "probe.nothing_to_show": "the text has neither an output nor a table",
    "probe.no_table": "the text has no table of this name",
    "probe.no_fields": "the fields of an output's events cannot be told",
    "probe.clock": "the time of an event is not by the clock that reports have",
}
"""What can go wrong -> what it means; each has a test that names it."""


class ProbeError(TelemetryError):
    """A probe cannot do what it was asked for."""
