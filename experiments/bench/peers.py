"""`ccp bench peers`: ccplane's `cubic` beside what else a sender could run.

Measured as in `datapath`: kernel CUBIC, kernel BBR where the kernel has it, the kernel's CUBIC in BPF without
an agent (`plain_cubic`), and CUBIC with everything in `on_report` (`python_cubic.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from experiments.agent_process import running_agent
from experiments.bench import ack_price, datapath, python_cubic
from experiments.bench.plain_cubic import plain_cubic
from experiments.bench.result import BenchResult, interval, short, told_rounds
from experiments.bench.rounds import Plan
from experiments.netlab import available_congestion_controls

BBR: Final = "bbr"
OURS: Final = f"{datapath.OURS}cubic"
IN_PYTHON: Final = f"{datapath.OURS}{python_cubic.PythonCubic.name}"
FIGURES: Final = {
    "CPU per GB": "cpu_per_gb_ratio",
    "throughput": "throughput_ratio",
    "retransmits": "retransmit_ratio",
    "an ACK [ns]": "ack_ns",
}
"""Column -> figure; all but the last are by those of kernel CUBIC."""


@dataclass(slots=True)
class Peers(BenchResult):
    """What was found, printed a peer a line."""

    def print(self, console: Console) -> None:
        """Print the peers as a table."""
        table = Table(title=f"by kernel CUBIC: {self.about['host']['kernel']}", box=SIMPLE)
        for column in ("path", "congestion control", *FIGURES):
            table.add_column(column, no_wrap=column != "congestion control", overflow="fold")
        for row in rows(self):
            table.add_row(*row)
        console.print(table)
        for title, tally in self.rounds.items():
            console.print(f"{title}: {told_rounds(tally)}", highlight=False)
        if missing := self.options["missing"]:
            console.print(f"this kernel has no {', '.join(missing)}", highlight=False)


def rows(result: BenchResult) -> Iterator[list[str]]:
    """Yield a line for each path and congestion control: the words of a table.

    Args:
        result: Of this benchmark, perhaps a kept one.
    """
    for scenario in datapath.SCENARIOS:
        for name in result.options["names"]:
            label = scenario if name == OURS else f"{scenario}.{name}"
            yield [scenario, name, *(_cell(result, f"{figure}.{label}") for figure in FIGURES.values())]


def _cell(result: BenchResult, name: str) -> str:
    if name not in result.metrics:
        return ""
    metric = result.metrics[name]
    between = interval(metric)
    return f"{short(metric.value)} ({between})" if between else short(metric.value)


def run(plan: Plan, seconds: float) -> Peers:
    """Measure.

    Args:
        plan: How long, for each of both paths.
        seconds: Length of each transfer [s].

    Returns:
        As `datapath.run`; the option `missing` names those that this kernel has not got.

    Raises:
        BenchError: As `measure_rounds`.
        LoadError: If the datapath does not load.
        LabError: If a transfer fails.
    """
    missing = sorted({BBR} - set(available_congestion_controls()))
    in_python = f"{python_cubic.__name__}:{python_cubic.PythonCubic.__name__}"
    with running_agent("cubic", in_python), plain_cubic() as plain:
        names = [datapath.KERNEL, OURS, *({BBR} - set(missing)), plain, IN_PYTHON]
        result = Peers("peers", plan, {"seconds": seconds, "names": names[1:], "missing": missing})
        hooks = {OURS: ack_price.OURS, plain: ack_price.PLAIN, IN_PYTHON: ack_price.OURS}
        for scenario in datapath.SCENARIOS:
            with datapath.path_of(scenario) as path:
                datapath.compare(result, scenario, path, names, seconds)
                datapath.price(result, scenario, path, hooks)
    return result
