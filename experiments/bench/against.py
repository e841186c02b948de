"""`ccp bench datapath --against`: two builds in interleaved pairs, or this one beside a kept result.

A revision is built beside this one (`builds.py`). Each pair starts an agent of either build, in random order,
side by side in one kernel (`side_by_side.py`): where programs and maps come to lie is chance, which differs
from start to start. What is judged is throughput and CPU per GB over a bare link, in turn, and what an ACK
costs at 1 Gbit/s, at the same time.
`verdicts.py` has the rule and its error rate.

A kept result was measured in another hour, perhaps on another machine. So only what was measured beside the
kernel in the same rounds is compared: ratios to kernel CUBIC, and to the kernel's CUBIC in BPF.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Final, Literal

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from experiments.bench import datapath
from experiments.bench.builds import Build, build_of, this_build
from experiments.bench.errors import BenchError
from experiments.bench.result import BenchResult, short, told_rounds
from experiments.bench.rounds import Plan, measure_rounds
from experiments.bench.side_by_side import ack_ns_together, side_by_side
from experiments.bench.transfers import Sample, transfer
from experiments.bench.verdicts import (
    FEWEST_APART,
    LEVEL,
    PAIRS,
    Judgement,
    Rule,
    Verdict,
    judge_apart,
    judge_pairs,
)
from experiments.netlab import Path as NetPath

THIS: Final = "this"
"""Names of the builds, of their congestion controls (`ccp.this`), and in figures."""
OTHER: Final = "against"
SECONDS: Final = 2.0
"""Length of each transfer of a pair, unless told otherwise [s]."""

THROUGHPUT: Final = Rule(0.02, more_is_better=True)
CPU: Final = Rule(0.03)
ACK: Final = Rule(0.05)
PAIRED: Final = {
    "throughput.unlimited": THROUGHPUT,
    "cpu_per_gb.unlimited": CPU,
    "ack_ns.1gbit": ACK,
}
"""Figure of a pair -> how it is judged."""
KEPT: Final = {
    "throughput_ratio.unlimited": THROUGHPUT,
    "cpu_per_gb_ratio.unlimited": CPU,
    "cpu_per_gb_ratio.1gbit": CPU,
    "ack_ns_ratio.unlimited": ACK,
    "ack_ns_ratio.1gbit": ACK,
}
"""Figure of a result of `ccp bench datapath` -> how it is judged."""
_COLORS: Final = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.UNDECIDED: "yellow"}


@dataclass(slots=True)
class Comparison(BenchResult):
    """What was found.

    Attributes:
        judged: Figure -> what is said of it.
        remark: What a reader of the table has to know.
    """

    judged: dict[str, Judgement] = field(default_factory=dict)
    remark: str = ""

    @property
    def exit_code(self) -> int:
        """1 if a figure is worse."""
        return int(any(one.verdict is Verdict.WORSE for one in self.judged.values()))

    def to_json(self) -> str:
        """Return it as a JSON object: as any result, with `judged`."""
        told = json.loads(BenchResult.to_json(self))
        told["judged"] = {name: asdict(one) for name, one in self.judged.items()}
        return json.dumps(told, indent=2)

    def print(self, console: Console) -> None:
        """Print the ratios and verdicts as a table."""
        title = f"this build by {self.options['against']}: {self.about['host']['kernel']}"
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
            console.print(f"{scenario}: {told_rounds(tally)}", highlight=False)
        if self.remark:
            console.print(self.remark, highlight=False)


def run(plan: Plan, against: str, seconds: float | None, algorithm: str) -> Comparison:
    """Compare this build.

    Args:
        plan: How many pairs, at least; more than that are not measured, whatever comes out.
        against: A kept result, or a revision as git reads it.
        seconds: Length of each transfer [s].
        algorithm: Which of ccplane's, by name.

    Raises:
        BenchError: `bench.unknown_revision`, `bench.build_failed`, `bench.cannot_read`,
            `bench.cannot_compare`, or as `measure_rounds`.
        LoadError: If the datapath does not load.
        LabError: If a transfer fails.
    """
    if (file := Path(against)).is_file():
        return _with_kept(plan, file, seconds, algorithm)
    with Console(stderr=True).status(f"{against}: looking") as status:
        other = build_of(against, status.update)
    return compare_builds(plan, this_build(), other, seconds or SECONDS, algorithm)


def compare_builds(plan: Plan, this: Build, other: Build, seconds: float, algorithm: str) -> Comparison:
    """Measure two builds in pairs.

    Args:
        plan: How many pairs, at least.
        this: The one that is judged.
        other: The one that it is compared with.
        seconds: Length of each transfer [s].
        algorithm: Which of ccplane's, by name.

    Raises:
        BenchError: As `measure_rounds`.
        LoadError: If the datapath of either does not load.
        LabError: If a transfer fails.
    """
    # A fixed number: whoever stops when the outcome pleases him is wrong more often than the interval says.
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
"""Figure of `PAIRED` -> build -> what it came to."""


def _measure(
    builds: Mapping[str, Build], algorithm: str, bare: NetPath, slow: NetPath, seconds: float
) -> Figures:
    """Start both builds, and measure: an ACK at the same time, the rest in turn, there and back."""
    with side_by_side(builds, algorithm) as sides:
        first, second = sides
        samples: dict[str, list[Sample]] = {name: [] for name in sides}
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


def _with_kept(plan: Plan, file: Path, seconds: float | None, algorithm: str) -> Comparison:
    kept = BenchResult.from_json(file.read_text(), str(file))
    figures = comparable(kept, algorithm, str(file))
    rounds = max(plan.rounds, FEWEST_APART)
    plan = Plan(rounds, max(rounds, plan.max_rounds), plan.precision, plan.seed)
    seconds = seconds or float(kept.options["seconds"])
    now = datapath.run(plan, seconds, algorithm=algorithm)
    options = {"against": str(file), "seconds": seconds, "algorithm": algorithm}
    result = Comparison("against", plan, options, rounds=now.rounds, metrics=now.metrics)
    for figure in figures:
        result.judged[figure] = judge_apart(
            now.metrics[figure].values, kept.metrics[figure].values, KEPT[figure]
        )
    result.remark = (
        "These rounds were not interleaved with the kept ones: only ratios that each run has of its own are"
        " compared, and what changed on the machine meanwhile is in them."
    )
    return result


def comparable(kept: BenchResult, algorithm: str, where: str) -> Sequence[str]:
    """Return which figures of a kept result can be judged.

    Args:
        kept: The result.
        algorithm: Of this run.
        where: The file, for the error.

    Raises:
        BenchError: `bench.cannot_compare`, if it is another benchmark's or another algorithm's, or if it has
            too few rounds.
    """
    found = [name for name in KEPT if name in kept.metrics]
    rounds = min((len(kept.metrics[name].values) for name in found), default=0)
    if kept.name != "datapath" or kept.options.get("algorithm") != algorithm:
        why = f"it is of `ccp bench {kept.name}`, options {dict(kept.options)}"
    elif rounds < FEWEST_APART:
        why = f"it has {rounds} rounds, and an interval of {LEVEL:.0%} needs {FEWEST_APART}"
    else:
        return found
    raise BenchError(
        "bench.cannot_compare",
        f"`{algorithm}` cannot be compared with this result",
        where,
        why,
        f"keep one: `ccp bench datapath --algorithm {algorithm} --rounds {FEWEST_APART} --keep FOLDER`",
    )
