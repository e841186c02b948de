"""Runs of ns-3, in a process of their own: plans come as lines of JSON on standard input, answers leave so.

It is started by path, and needs nothing but the wheel `ns3`: see `ns3_process`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("ns3_flows.cc")


def loaded() -> Any:
    """Load ns-3, which takes ten seconds, and return what `ns3_flows.cc` has."""
    import cppyy
    from ns import ns  # noqa: F401 -- loads the libraries

    cppyy.cppdef(SOURCE.read_text())
    return cppyy.gbl.ccplane


def run(ours: Any, plan: dict[str, Any]) -> dict[str, Any]:
    """Run a plan.

    Args:
        ours: As of `loaded`.
        plan: As of `ns3_peer.plan_of`.

    Returns:
        `cpu_s` of the simulation alone; for each flow `received_bytes`, `retrans_pkts`, `rtts_us`.
    """
    told = ours.Run()
    for name in (
        "rate_bytes_per_s",
        "delay_us",
        "buffer_pkts",
        "mark_pkts",
        "duration_s",
        "sample_s",
        "seed",
    ):
        setattr(told, name, plan[name])
    for one in plan["flows"]:
        flow = ours.Flow()
        flow.algorithm, flow.start_s = one["algorithm"], one["start_s"]
        told.flows.push_back(flow)
    ours.RunFlows(told)
    flows = [
        {
            "received_bytes": int(one.received_bytes),
            "retrans_pkts": int(one.retrans_pkts),
            "rtts_us": [float(rtt_us) for rtt_us in one.rtts_us],
        }
        for one in told.flows
    ]
    return {"cpu_s": float(told.cpu_s), "flows": flows}


if __name__ == "__main__":
    # What C++ prints must not stand in the answer.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    simulator = loaded()
    for line in sys.stdin:
        print(json.dumps(run(simulator, json.loads(line))), file=answer, flush=True)
    os._exit(0)  # destructors of two C++ runtimes in an order that nobody chose
