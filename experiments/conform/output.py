"""The output of `ccp conform`: a table of cases, and what to do about failures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from experiments.commands import OUT
from experiments.conform.cases import FAILS, PASSES, UNDECIDED, Case, CaseResult
from experiments.conform.known import reason
from experiments.conform.running import Progress
from experiments.printing import console, print_json
from experiments.runs.check import SIM
from experiments.writing import file_name

_STYLES = {PASSES: "green", FAILS: "bold red", UNDECIDED: "yellow"}


def place(suite: str, algorithm: str) -> Path:
    """Return the default folder for failures."""
    return OUT / "conform" / file_name(f"{Path(suite).stem}-{algorithm.replace('/', '-')}")


@contextmanager
def progress() -> Iterator[Progress]:
    """Show the present case on the terminal."""
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not Console(stderr=True).is_terminal,
    )
    with bar:
        task = bar.add_task("", total=None)
        yield lambda name, number, total: bar.update(task, description=name, completed=number, total=total)


def show_cases(suite: str, cases: Sequence[Case]) -> None:
    """Print the cases of a suite."""
    table = Table(title=f"suite {suite}: {len(cases)} cases")
    for heading in ("case", "asked for by", "how and why"):
        table.add_column(heading)
    for one in cases:
        table.add_row(one.name, escape(one.source), escape(one.why))
    console().print(table)


def show(results: Sequence[CaseResult], *, as_json: bool = False) -> None:
    """Print results: a line for each case, then each failure with its files."""
    if as_json:
        print_json([one.as_dict() for one in results])
        return
    first = results[0]
    where = "" if first.datapath == SIM else ", real sockets"
    table = Table(title=f"{escape(first.algorithm)}, suite {first.suite}{where}", show_lines=False)
    for heading in ("case", "asked for by", "outcome", "numbers"):
        table.add_column(heading)
    grouped = [list(group) for _, group in itertools.groupby(results, key=lambda one: one.case)]
    shown = [_worst(group) for group in grouped]
    for group, one in zip(grouped, shown, strict=True):
        said = f"[{_STYLES[one.outcome]}]{one.outcome}[/]"
        same = sum(other.outcome == one.outcome for other in group)
        if len(group) > 1:
            said += f" {same} of {len(group)}"
        table.add_row(one.case, escape(one.source), said, escape(one.said))
    console().print(table)
    for one in shown:
        if one.outcome == FAILS:
            _explain(one)
    outcomes = [one.outcome for one in shown]
    counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in (PASSES, FAILS, UNDECIDED))
    typer.echo(f"{counts}; {len(shown)} cases")


def _worst(group: Sequence[CaseResult]) -> CaseResult:
    order = (FAILS, UNDECIDED, PASSES)
    return min(group, key=lambda one: order.index(one.outcome))


def _explain(one: CaseResult) -> None:
    typer.echo(f"{one.case} fails with seed {one.seed}: {one.said}")
    if one.why:
        typer.echo(f"  why    {one.why}")
    if known := reason(one.suite, one.algorithm, one.case):
        typer.echo(f"  known  {known}")
    if one.files:
        yaml, png = one.files
        typer.echo(f"  again  {'' if one.datapath == SIM else 'sudo '}ccp experiment run {yaml}")
        typer.echo(f"  plot   {png}")
