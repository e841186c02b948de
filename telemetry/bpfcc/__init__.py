"""Probes that a researcher types: C for BCC, compiled and attached when asked for.

May import: `telemetry.errors`, `ccplane.base`. The module `bcc` is imported when a probe
is made, and nowhere else.

Entry point: `BccProbe`. `ccplane.agent.features.probes` shows its events beside an agent's reports.
"""

from telemetry.bpfcc.host import why_not
from telemetry.bpfcc.probe import BccProbe, Event
from telemetry.bpfcc.tables import Table

__all__ = ["BccProbe", "Event", "Table", "why_not"]
