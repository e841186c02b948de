"""`ccp bench datapath --against`: two builds in interleaved pairs.

`builds.py` builds the other revision. Each pair starts an agent of each build in one kernel, in random
order (`side_by_side.py`), because the memory layout of programs and maps differs between starts. Throughput
and CPU per GB over a bare link are measured alternately, and the time per ACK at 1 Gbit/s is measured
simultaneously. `verdicts.py` has the rule and its error rate.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Final, Literal

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from experiments.bench import datapath
from experiments.bench.builds import Build, build_of, this_build
from experiments.bench.result import BenchResult, rounds_text, short
from experiments.bench.rounds import Plan, measure_rounds
from experiments.bench.side_by_side import ack_ns_together, side_by_side
from experiments.bench.transfers import TransferSample, transfer
from experiments.bench.verdicts import LEVEL, PAIRS, Judgement, Rule, Verdict, judge_pairs
from experiments.netlab import Path as NetPath

THIS: Final = "this"
"""Names of the builds, also used for their congestion controls (`ccp.this`) and in figures."""
OTHER: Final = "against"
SECONDS: Final = 2.0
"""Default length of each transfer of a pair [s]."""

THROUGHPUT: Final = Rule(0.02, more_is_better=True)
CPU: Final = Rule(0.03)
ACK: Final = Rule(0.05)
PAIRED: Final = {"throughput.unlimited": THROUGHPUT, "cpu_per_gb.unlimited": CPU, "ack_ns.1gbit": ACK}
"""Name of a figure -> the rule for its verdict."""
_COLORS: Final = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.UNDECIDED: "yellow"}


@dataclass(slots=True)
class Comparison(BenchResult):
    """Result of a comparison.

    Attributes:
        judged: Figure -> its verdict.
    """

    judged: dict[str, Judgement] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 1 if a figure is worse, else 0."""
        return int(any(one.verdict is Verdict.WORSE for one in self.judged.values()))

    def to_json(self) -> str:
        """Return the result as a JSON object, with `judged`."""
        reported = json.loads(BenchResult.to_json(self))
        reported["judged"] = {name: asdict(one) for name, one in self.judged.items()}
        return json.dumps(reported, indent=2)

    def print(self, console: Console) -> None:
        """Print the ratios and verdicts as a table."""
        title = f"ratio of this build to {self.options['against']}: {self.about['host']['kernel']}"
        table = Table(title=title, box=SIMPLE)
        for column in ("figure", "ratio", f"{LEVEL:.0%} interval", "margin", "this build is"):
            justify: Literal["left", "right"] = "left" if column in {"figure", "this build is"} else "right"
            table.add_column(column, justify=justify, no_wrap=column != "figure", overflow="fold")
        for name, one in self.judged.items():
            color = _COLORS.get(one.verdict)
            said = f"[{color}]{one.verdict}" if color else str(one.verdict)
            interval = f"{short(one.low)} - {short(one.high)}"
            table.add_row(name, short(one.value), interval, f"{one.margin_ratio:.0%}", said)
        console.print(table)
        for scenario, tally in self.rounds.items():
            console.print(f"{scenario}: {rounds_text(tally)}", highlight=False)


def run(plan: Plan, against: str, seconds: float | None, algorithm: str) -> Comparison:
    """Compare this build with a revision.

    Args:
        plan: Its rounds are the number of pairs, at least `PAIRS`.
        against: Branch, tag or commit.
        seconds: Length of each transfer [s].
        algorithm: Name of a ccplane algorithm.

    Raises:
        BenchError: `bench.unknown_revision`, `bench.build_failed`, `bench.cannot_compare`, or as
            `measure_rounds`.
        LoadError: If the datapath does not load.
        LabError: If a transfer fails.
    """
    with Console(stderr=True).status(f"{against}: resolving") as status:
        other = build_of(against, status.update)
    return compare_builds(plan, this_build(), other, seconds or SECONDS, algorithm)


def compare_builds(plan: Plan, this: Build, other: Build, seconds: float, algorithm: str) -> Comparison:
    """Measure two builds in pairs; arguments and errors are those of `run`."""
    # A fixed number: stopping at a pleasing result would raise the error rate.
    pairs = max(plan.rounds, PAIRS)
    fixed = Plan(pairs, pairs, plan.precision, plan.seed)
    options = {"against": other.name, "seconds": seconds, "algorithm": algorithm}
    result = Comparison("against", fixed, options)
    builds = {THIS: this, OTHER: other}
    order = random.Random(plan.seed)
    with datapath.path_of("unlimited") as bare, datapath.path_of("1gbit") as slow:
        measured = measure_rounds(
            ["pair"],
            lambda _name, _number: _measure(
                {name: builds[name] for name in order.sample(list(builds), 2)}, algorithm, bare, slow, seconds
            ),
            fixed,
            title="pairs",
            headlines=lambda _: [],
        )
    result.rounds["pairs"] = measured.tally
    pairs_taken = measured.samples["pair"]
    for figure, rule in PAIRED.items():
        ratios = [one[figure][THIS] / one[figure][OTHER] for one in pairs_taken]
        result.add(f"ratio.{figure}", ratios, "ratio")
        result.judged[figure] = judge_pairs(ratios, rule)
    for name in builds:
        result.add(f"ack_ns.1gbit.{name}", [one["ack_ns.1gbit"][name] for one in pairs_taken], "ns")
    return result


Figures = dict[str, dict[str, float]]
"""Name of a figure in `PAIRED` -> name of the build -> value."""


def _measure(
    builds: Mapping[str, Build], algorithm: str, bare: NetPath, slow: NetPath, seconds: float
) -> Figures:
    """Start both builds, and measure an ACK simultaneously, the rest alternately."""
    with side_by_side(builds, algorithm) as sides:
        first, second = sides
        samples: dict[str, list[TransferSample]] = {name: [] for name in sides}
        for name in (first, second, second, first):
            samples[name].append(transfer(bare, sides[name].congestion, seconds / 2))
        ack_ns = ack_ns_together(slow, list(sides.values()))
    return {
        "throughput.unlimited": {
            name: fmean(one.goodput_bytes_per_s for one in both) for name, both in samples.items()
        },
        "cpu_per_gb.unlimited": {
            name: fmean(one.cpu_s_per_gb for one in both) for name, both in samples.items()
        },
        "ack_ns.1gbit": dict(zip(sides, ack_ns, strict=True)),
    }
