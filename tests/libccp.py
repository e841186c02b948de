"""A datapath that is built on libccp, steered by an agent of ours.

It is the example `libccp_path` of `native/ccp-difftest`: TCP and the bottleneck are in its own process, and
time is real.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ccplane.datapath.ccp_unix.datapath import SOCKET

CRATE: Final = "ccp-difftest"
EXAMPLE: Final = "libccp_path"
AGE_S: Final = 3600.0
"""How long the datapath is there when a flow begins: some agents take the time since then for longer [s]."""
MAX_ALONE_RATIO: Final = 0.05
"""Share of the ACKs on which the agent may be missed, as one that is behind with its messages is."""
EVERY_S: Final = 0.1
"""How often the flow is looked at [s]."""


@dataclass(frozen=True, slots=True)
class LibccpPath:
    """The program, and the path that it is to have.

    Attributes:
        program: The example, built.
        rate_mbit_per_s: Rate of the bottleneck [Mbit/s].
        rtt_ms: RTT without a queue [ms].
        buffer_bdp: What its queue has room for, by the BDP.
        agent: Socket of the agent.
    """

    program: Path
    rate_mbit_per_s: float
    rtt_ms: float
    buffer_bdp: float = 1.0
    agent: Path = SOCKET

    def measured(self, seconds: float, omit_s: float) -> dict[str, float]:
        """Have the agent that is there steer one flow.

        Args:
            seconds: How long it is measured [s].
            omit_s: What goes before it [s].

        Returns:
            Goodput [Mbit/s], median and 95th percentile of the smoothed RTT [ms], retransmitted segments.

        Raises:
            AssertionError: If it ends otherwise than with a flow that the agent steered.
        """
        with tempfile.TemporaryDirectory(prefix="ccplane-libccp-") as folder:
            options = {
                "agent": self.agent,
                "bind": f"{folder}/datapath",
                "mbit": self.rate_mbit_per_s,
                "rtt_ms": self.rtt_ms,
                "buffer_bytes": round(self.buffer_bdp * self.rate_mbit_per_s * self.rtt_ms * 125),
                "seconds": omit_s + seconds + EVERY_S,
                "every_s": EVERY_S,
                "age_s": AGE_S,
            }
            command = [str(self.program.absolute()), *(f"{name}={value}" for name, value in options.items())]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not lines:
            raise self._failed(done.stderr.strip()[-1000:] or f"exit code {done.returncode}")
        seen = [one for one in map(json.loads, lines) if one["at_us"] >= omit_s * 1e6]
        first, last = seen[0], seen[-1]
        alone, folds = (last[name] - first[name] for name in ("folds_alone", "folds"))
        if alone > MAX_ALONE_RATIO * folds or last["fold_errors"]:
            raise self._failed(f"nobody steered the flow on {alone} of {folds} ACKs")
        rtt_ms = [one["srtt_us"] / 1e3 for one in seen]
        acked_bytes = last["acked_bytes"] - first["acked_bytes"]
        return {
            "goodput_mbit_per_s": acked_bytes * 8 / (last["at_us"] - first["at_us"]),
            "rtt_p50_ms": float(np.percentile(rtt_ms, 50)),
            "rtt_p95_ms": float(np.percentile(rtt_ms, 95)),
            "retransmits": last["retransmits"] - first["retransmits"],
        }

    def _failed(self, why: str) -> AssertionError:
        return AssertionError(f"the datapath on libccp failed ({self.program}): {why}")
