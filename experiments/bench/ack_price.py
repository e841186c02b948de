"""Time per ACK: how long BPF programs run per ACK, as counted by the kernel.

Counting costs about 20 ns per run and disturbs other measurements, so these measurements have their own
transfers. The kernel counts the hooks of `struct_ops`; their time includes their tail calls, the fold program
and `ccp_finish_*`.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from experiments.bench.bpf_objects import Runs, counting_runs, runs_of_struct_ops
from experiments.bench.errors import BenchError
from experiments.netlab import Path, start_iperf3

OWN: Final = "ccp_"
"""Prefix of the names of ccplane's hooks."""
SETTLE_S: Final = 0.6
"""How long a transfer runs before it is measured [s]."""
SPANS: Final = 7
"""Number of measured spans of a transfer."""
SPAN_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Price:
    """Time of programs for the ACKs of a transfer.

    Attributes:
        acks: Number of runs of the hook that ran most, the one for ACKs.
        hook_ns: Time of each hook that ran, per ACK [ns].
    """

    acks: int
    hook_ns: Mapping[str, float]

    @property
    def ack_ns(self) -> float:
        """Time of all hooks per ACK [ns]."""
        return sum(self.hook_ns.values())


def price_of(before: Mapping[str, Runs], after: Mapping[str, Runs], what: str) -> Price:
    """Return the time of programs between two counts.

    Args:
        before: Runs by name of the program.
        after: Likewise, later.
        what: Congestion control, for the error.

    Raises:
        BenchError: `bench.no_program_ran`.
    """
    spent = {name: runs - before.get(name, Runs(0, 0.0)) for name, runs in after.items()}
    acks = max((runs.count for runs in spent.values()), default=0)
    if acks == 0:
        raise BenchError(
            "bench.no_program_ran",
            "the kernel counted no run of a BPF program",
            f"the hooks of `{what}`",
            "the transfer used another congestion control, or the programs were unloaded",
            "check what this kernel supports with `ccp doctor`",
        )
    return Price(acks, {name: runs.time_s / acks * 1e9 for name, runs in spent.items() if runs.count})


def priced_transfer(path: Path, congestion: str, hooks: str) -> Price:
    """Return the time of hooks per ACK in the middle of a transfer, without slow start and connection setup.

    The result is the median of `SPANS` spans, because an interrupt may fall into a program's time.

    Raises:
        BenchError: `bench.no_program_ran`.
        LabError: If the transfer fails.
        OSError: If this process may not enable counting.
    """
    duration_s = math.ceil(SETTLE_S + SPANS * SPAN_S) + 1  # the block ends it earlier
    with (
        counting_runs(),
        start_iperf3(path.sender, path.receiver, congestion=congestion, duration_s=duration_s),
    ):
        time.sleep(SETTLE_S)
        counts = [runs_of_struct_ops(hooks)]
        for _ in range(SPANS):
            time.sleep(SPAN_S)
            counts.append(runs_of_struct_ops(hooks))
    spans = [pair for pair in itertools.pairwise(counts) if pair[0] != pair[1]]  # a flow may pause
    prices = [price_of(*pair, congestion) for pair in spans or [(counts[0], counts[-1])]]
    return sorted(prices, key=lambda price: price.ack_ns)[len(prices) // 2]
