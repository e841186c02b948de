"""Ad-hoc probes: C for BCC, compiled and attached on request.

This package may import `telemetry.errors` and `ccplane.base`. The module `bcc` is only imported when a probe
is created.

Entry point: `BccProbe`. `ccplane.agent.features.probes` shows a probe's events next to an agent's reports.
"""

from telemetry.bpfcc.host import why_not
from telemetry.bpfcc.probe import BccProbe, Event
from telemetry.bpfcc.tables import Table

__all__ = ["BccProbe", "Event", "Table", "why_not"]
