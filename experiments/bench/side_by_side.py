"""Two builds of ccplane in one kernel, each with its own agent and congestion control.

Every agent registers two congestion controls: `ccp`, which a machine can have only once, and one with a name
of its own (`ccp run --cc-name`). So the first agent's `ccp` is removed before the second agent starts. When
both builds are measured simultaneously, the effects of neighbours on caches affect both.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

from experiments.agent_process import PIN_DIR, running_agent
from experiments.bench.ack_price import SETTLE_S, SPAN_S, SPANS, price_of
from experiments.bench.bpf_objects import counting_runs, detach_link, programs, runs_of_some
from experiments.bench.builds import Build
from experiments.bench.errors import BenchError
from experiments.netlab import Path, start_iperf3


@dataclass(frozen=True, slots=True)
class Side:
    """A running build.

    Attributes:
        congestion: Its congestion control.
        programs: IDs of its BPF programs.
    """

    congestion: str
    programs: frozenset[int]


@contextlib.contextmanager
def side_by_side(builds: Mapping[str, Build], algorithm: str) -> Iterator[dict[str, Side]]:
    """Run an agent of each build for a block, and remove both from the kernel afterwards.

    Args:
        builds: By name, which is also that of its congestion control, `ccp.NAME`; started in this order.
        algorithm: Name of a ccplane algorithm.

    Raises:
        BenchError: `bench.cannot_compare`, if this kernel cannot run both.
        LoadError: If an agent does not start.
    """
    with contextlib.ExitStack() as agents:
        sides = {}
        for name, build in builds.items():
            known, pin_dir, congestion = programs(), f"{PIN_DIR}-{name}", f"ccp.{name}"
            options = (algorithm, "--cc-name", f"{algorithm}={congestion}")
            agents.enter_context(running_agent(*options, pin_dir=pin_dir, packages=build.packages))
            sides[name] = Side(congestion, programs() - known)
            try:
                detach_link(FilePath(pin_dir, "registered/ccp"))
            except OSError as error:
                raise BenchError(
                    "bench.cannot_compare",
                    "this kernel cannot run two builds side by side",
                    pin_dir,
                    error.strerror or str(error),
                    "use Linux 6.11 or newer",
                ) from error
        yield sides


def ack_ns_together(path: Path, sides: Sequence[Side]) -> tuple[float, ...]:
    """Return the time per ACK on each side, in the middle of transfers that share a path [ns].

    The times are those of the span with the median ratio of the first side to the second.

    Raises:
        BenchError: `bench.no_program_ran`.
        LabError: If a transfer fails.
    """
    duration_s = round(SETTLE_S + SPANS * SPAN_S) + 2  # the block ends them earlier
    with counting_runs(), contextlib.ExitStack() as transfers:
        for side in sides:
            sending = start_iperf3(
                path.sender, path.receiver, congestion=side.congestion, duration_s=duration_s
            )
            transfers.enter_context(sending)
        time.sleep(SETTLE_S)
        spans = []
        before = [runs_of_some(side.programs) for side in sides]
        for _ in range(SPANS):
            time.sleep(SPAN_S)
            after = [runs_of_some(side.programs) for side in sides]
            pairs = list(zip(before, after, sides, strict=True))
            spans.append(tuple(price_of(then, now, side.congestion).ack_ns for then, now, side in pairs))
            before = after
    middle = statistics.median_low(first / second for first, second in spans)
    return next(span for span in spans if span[0] / span[1] == middle)
