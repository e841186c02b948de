"""An ACK's price: how long BPF programs run for it, as the kernel counts.

Counting costs a program some 20 ns a run and disturbs what else is measured, so it is switched on for
transfers of their own. The kernel counts what it calls: the hooks of `struct_ops`. What a hook calls is in
its time: the fold program and `ccp_finish_*` (tail calls). So the price of an ACK is one figure, from hook to
finish.
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

OURS: Final = "ccp_"
"""What the names of ccplane's hooks begin with."""
SETTLE_S: Final = 0.6
"""How long a transfer goes on before it is looked at [s]."""
SPANS: Final = 7
"""In how many spans of it the kernel's counts are taken."""
SPAN_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Price:
    """What programs took for the ACKs of a transfer.

    Attributes:
        acks: How often the hook ran that ran most: the one for ACKs.
        hook_ns: Time of each hook that ran, by ACK [ns].
    """

    acks: int
    hook_ns: Mapping[str, float]

    @property
    def ack_ns(self) -> float:
        """Time of all hooks, by ACK [ns]."""
        return sum(self.hook_ns.values())


def price_of(before: Mapping[str, Runs], after: Mapping[str, Runs], what: str) -> Price:
    """Return what programs took between two counts.

    Args:
        before: Runs by name of the program.
        after: The same, later.
        what: Whose they are, for the error.

    Raises:
        BenchError: `bench.no_program_ran`, if none did.
    """
    spent = {name: runs - before.get(name, Runs(0, 0.0)) for name, runs in after.items()}
    acks = max((runs.count for runs in spent.values()), default=0)
    if acks == 0:
        raise BenchError(
            "bench.no_program_ran",
            "the kernel counted no run of a BPF program",
            f"the hooks of `{what}`",
            "the transfer had another congestion control, or the programs are gone",
            "`ccp doctor` says what this kernel can do",
        )
    return Price(acks, {name: runs.time_s / acks * 1e9 for name, runs in spent.items() if runs.count})


def priced_transfer(path: Path, congestion: str, hooks: str) -> Price:
    """Return what an ACK costs in the middle of a transfer, while the kernel counts.

    Begin and end of a connection, slow start and a cold start of the agent are not in it. Of `SPANS` the one
    in the middle is taken: an interrupt in a program's time is no price of an ACK.

    Args:
        path: From whom to whom.
        congestion: The congestion control.
        hooks: What the names of its hooks begin with.

    Raises:
        BenchError: `bench.no_program_ran`.
        LabError: If the transfer fails.
        OSError: If this process may not have runs counted.
    """
    duration_s = math.ceil(SETTLE_S + SPANS * SPAN_S) + 1  # it is ended before
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
