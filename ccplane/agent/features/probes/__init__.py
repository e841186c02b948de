"""Probes of one's own, written for BCC: their events next to the reports of an agent.

`beside.record` gives both as DataFrames; `commands` is `ccp probe`. The probe itself is `telemetry.bpfcc`.
"""

from __future__ import annotations

from ccplane.agent.features import Feature

FEATURE = Feature(commands={"telemetry": {"probe": "ccplane.agent.features.probes.commands:app"}})
