"""Errors of probes."""

from __future__ import annotations

from typing import Final

from telemetry.errors import TelemetryError

SLUGS: Final[dict[str, str]] = {
    "probe.no_text": "no probe was given, or two probes were given",
    "probe.no_bcc": "the distribution's bcc is not installed",
    "probe.wrong_bcc": "Python's module `bcc` is another project's",
    "probe.no_headers": "the headers of the running kernel are missing",
    "probe.not_permitted": "only root may attach probes",
    "probe.no_kprobes": "the kernel was built without kprobes",
    "probe.not_compiled": "the C text does not compile",
    "probe.refused": "the kernel refused the program",
    "probe.not_attached": "the kernel function or tracepoint does not exist, or cannot be probed",
    "probe.attaches_to_nothing": "no function name in the text names an attach point",
    "probe.nothing_to_show": "the text has neither an output nor a table",
    "probe.no_table": "the text has no table of this name",
    "probe.no_fields": "the fields of an output's events cannot be determined",
    "probe.clock": "the time of an event is not on the clock of reports",
}
"""Slug -> meaning; a test covers each."""


class ProbeError(TelemetryError):
    """A probe cannot be created or read."""
