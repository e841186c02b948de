"""All benchmarks, their durations, and a run of all of them."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from experiments.agent_process import ccp
from experiments.bench.rounds import Plan


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark.

    Attributes:
        plan: Default plan.
        minutes: Estimated time on two cores, with the minimum and maximum number of rounds, undisturbed.
    """

    plan: Plan
    minutes: tuple[float, float]

    @property
    def minutes_text(self) -> str:
        """Estimated time as text."""
        minimum, maximum = self.minutes
        return f"{minimum:g} to {maximum:g} minutes" if minimum != maximum else f"{minimum:g} minutes"


BENCHMARKS: Final = {
    "sim": Benchmark(Plan(max_rounds=12), (1, 2)),
    "datapath": Benchmark(Plan(max_rounds=18), (2, 8)),
    "latency": Benchmark(Plan(max_rounds=12, precision=0.1), (2, 4)),
    "reports": Benchmark(Plan(max_rounds=12), (2, 4)),
    "flows": Benchmark(Plan(max_rounds=12), (3, 7)),
    "bus": Benchmark(Plan(max_rounds=8, precision=0.1), (4, 6)),
    "int": Benchmark(Plan(max_rounds=12), (2, 4)),
}
"""Name -> benchmark, in the order in which `run` runs them."""


def run(console: Console, keep: Path | None = None) -> list[str]:
    """Print estimated times, run all benchmarks in separate processes, and return those that failed."""
    console.print(*(f"{name}: {benchmark.minutes_text}" for name, benchmark in BENCHMARKS.items()), sep="\n")
    minimum, maximum = (sum(benchmark.minutes[end] for benchmark in BENCHMARKS.values()) for end in (0, 1))
    console.print(f"all: {minimum:.0f} to {maximum:.0f} minutes; longer if rounds are disturbed and repeated")
    failed = []
    for name in BENCHMARKS:
        begun_s = time.monotonic()
        kept = [] if keep is None else ["--keep", str(keep)]
        command = ccp("bench", name, *kept)
        done = subprocess.run(command, check=False)
        minutes, seconds = divmod(round(time.monotonic() - begun_s), 60)
        console.print(f"{name} took {minutes}:{seconds:02}", highlight=False)
        if done.returncode:
            failed.append(name)
    return failed
