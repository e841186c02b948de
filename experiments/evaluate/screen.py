"""An evaluation, a comparison and changes since a baseline in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.evaluate import agreement, words
from experiments.evaluate.baseline import DIRECTIONS, Changes
from experiments.evaluate.comparing import Ranking
from experiments.evaluate.evaluation import SIDES, Evaluation
from experiments.report.model import written

_COLOURS: Final = {"better": "green", "worse": "red", "mixed": "yellow", "undecided": "dim"}
_CHANGES: Final = 5
"""Changes that are printed of each."""
_PIPE_WIDTH: Final = 160


def console() -> Console:
    """Return the console of standard output; wide if it is not a terminal."""
    found = Console()
    return found if found.is_terminal else Console(width=_PIPE_WIDTH)


def show(evaluation: Evaluation) -> None:
    """Print the evaluation of one controller."""
    subject, reference = evaluation.subject, evaluation.against[0]
    to = console()
    for side in evaluation.sides:
        table = Table(title=f"{subject.label}: {SIDES[side]}", title_justify="left")
        for heading in ("RFC 9743", "case", f"compared with {reference.label}", "measured"):
            table.add_column(heading, overflow="fold")
        before = ""
        for case in evaluation.cases:
            if not evaluation.measured(case, side, subject.algorithm):
                continue
            judged = (case, side, subject.algorithm, reference.algorithm)
            verdict, why = evaluation.verdict_on(*judged), evaluation.why_on(*judged)
            criterion = f"{case.criterion.section} {case.criterion.title}"
            table.add_row(
                "" if criterion == before else criterion,
                f"{case.title} [dim]({case.key})[/]",
                f"[{_COLOURS[verdict]}]{words.verdict_text(verdict, why)}[/]",
                escape(words.sentence(evaluation, case, side, subject, reference)),
            )
            before = criterion
        to.print(table)
    for verdict, heading in (("worse", "Furthest behind"), ("better", "Furthest ahead")):
        if found := words.furthest(evaluation, subject, reference, verdict):
            to.print(f"[bold]{heading}[/]")
            for _, text in found:
                to.print(f"  {escape(text)}", highlight=False)
    for finding in evaluation.findings:
        to.print(f"[red]Finding[/] {escape(f'{finding.case}, seed {finding.seed}: {finding.text}')}")
        to.print(f"  {escape(finding.scenario)}", highlight=False)
    show_agreement(evaluation)
    for other in evaluation.against:
        to.print(words.counted(evaluation, subject, other), highlight=False)
    to.print(f"Runs: {words.spent_text(evaluation)}", highlight=False)


def show_changes(changes: Changes) -> None:
    """Print what has become worse or better since a baseline, the largest changes of each."""
    to = console()
    for heading, verdict in DIRECTIONS.items():
        own = changes.with_verdict(verdict)
        if own:
            to.print(f"[{_COLOURS[verdict]}]{heading} than in the baseline[/]")
        for one in own[:_CHANGES]:
            to.print(f"  {escape(str(one))}", highlight=False)
        if len(own) > _CHANGES:
            to.print(f"  and {len(own) - _CHANGES} more: see --report or --markdown", highlight=False)
    to.print(escape(changes.counted), highlight=False)


def show_agreement(evaluation: Evaluation) -> None:
    """Print how well simulator and real sockets agree, if there are effects on both."""
    if text := agreement.said(agreement.agreement(evaluation)):
        console().print(text, highlight=False)


def show_comparison(evaluation: Evaluation, rankings: Mapping[str, Ranking]) -> None:
    """Print ranks, and where each controller wins."""
    labels = {one.algorithm: one.label for one in evaluation.subjects}
    to = console()
    for side, ranking in rankings.items():
        table = Table(
            "congestion control", "mean rank", "95 % interval", "measures won", "wins",
            title=SIDES[side], title_justify="left",
        )  # fmt: skip
        for name, found in ranking.ranks.items():
            ends = "" if found.low != found.low else f"{written(found.low)} to {written(found.high)}"
            won = ranking.wins[name]
            texts = ", ".join(dict.fromkeys(one.case.key for one in won))
            table.add_row(labels[name], written(found.value), ends, str(len(won)), texts)
        to.print(table)
    show_agreement(evaluation)
    to.print(f"Runs: {words.spent_text(evaluation)}", highlight=False)
