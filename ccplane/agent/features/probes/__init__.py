"""Users' own BCC probes: the events of a probe are shown together with the reports of an agent.

`timeline.record` returns both as DataFrames; `commands` is `ccp probe`. `telemetry.bpfcc` is the
probe itself.
"""

from __future__ import annotations

from ccplane.agent.features import Feature

FEATURE = Feature(commands={"telemetry": {"probe": "ccplane.agent.features.probes.commands:app"}})
