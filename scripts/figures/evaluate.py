"""Gallery and agreement of docs/evaluate.md, from kept evaluations.

`ccp compare ALGORITHM... --json FILE` makes both; that of the agreement has `--sample`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from matplotlib.patches import Patch

from experiments.evaluate import agreement as agreements
from experiments.evaluate import words
from experiments.evaluate.comparing import ranking
from experiments.evaluate.controllers import Controller
from experiments.evaluate.effects import Overall
from experiments.evaluate.evaluation import Evaluation, read
from experiments.evaluate.running import SIMULATOR
from experiments.plots import style
from experiments.report.model import written
from scripts.figures.drawing import RESULTS, Figure, footnote

NAME: Final = "evaluate"
KEPT: Final = RESULTS / "evaluate.json"
AGREEMENT: Final = RESULTS / "evaluate-agreement.json"
"""A comparison of which a drawn part also ran on real sockets."""

_LOOKS: Final[dict[Overall, tuple[str, str]]] = {
    "better": ("#009E73", "+"),
    "worse": ("#D55E00", "−"),
    "mixed": ("#F0E442", "±"),
    "undecided": ("#ECECEC", ""),
}
"""Verdict -> colour and sign, so that colours are not needed to read it."""
_ROW_IN: Final = 0.17


@cache
def kept() -> Evaluation:
    """Return the gallery's comparison.

    Raises:
        EvaluateError: `evaluate.bad_file`.
    """
    return read(KEPT)


def report_name(subject: Controller) -> str:
    """Return the name of an algorithm's report, without its suffix."""
    return f"{NAME}-{subject.given.replace('/', '-')}"


def gallery() -> str:
    """Return a table with rank, verdicts, largest effects and report of each algorithm, best rank first."""
    evaluation = kept()
    ranks = ranking(evaluation, SIMULATOR)
    assert ranks is not None, "every algorithm ran every case"
    subjects = {one.algorithm: one for one in evaluation.subjects}
    undecided = "undecided (about the same)"
    heads = ("", "mean rank", "better", "worse", "mixed", undecided, "furthest behind", "furthest ahead")
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * 5} --- | --- |"]
    for name, rank in ranks.ranks.items():
        subject = subjects[name]
        own = evaluation.alone(subject)
        reference = own.against[0]
        counts = words.counts(own, subject, reference)
        label = f"[{subject.label}](reports/{report_name(subject)}.html)"
        if reference != evaluation.against[0]:
            label += f" (to {reference.label})"
        cells = [
            label,
            f"{rank.value:.1f} [{rank.low:.1f}, {rank.high:.1f}]",
            *(str(counts[one]) for one in words.VERDICTS if one != "undecided"),
            f"{counts['undecided']} ({words.why_counts(own, subject, reference)['about the same']})",
            *(_furthest(own, subject, reference, verdict) for verdict in ("worse", "better")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{len(evaluation.cases)} cases, {made(evaluation)}"])


def _furthest(evaluation: Evaluation, subject: Controller, reference: Controller, verdict: str) -> str:
    found = words.largest(evaluation, subject, reference, verdict)
    if not found:
        return "nowhere"
    one = found[0]
    ratio = one.effect.ratio or 0.0
    return f"{one.case.title}: {one.what.label} × {written(ratio)}"


def made(evaluation: Evaluation) -> str:
    """Return with which revision a kept evaluation was made, and how many seeds it has."""
    git = evaluation.about["git"]
    revision = f"revision `{git['commit'][:12]}`{' with changes' if git['dirty'] else ''}" if git else ""
    day = evaluation.about["date"][:10]
    return f"{evaluation.repeats} seeds, made on {day} with {revision or 'an unknown revision'}."


def agreement() -> str:
    """Return how well simulator and real sockets agree on the drawn part, as text."""
    evaluation = read(AGREEMENT)
    labels = [one.label for one in evaluation.subjects]
    found = agreements.agreement(evaluation)
    kinds = "; ".join(
        f"{kind} {one.same} of {len(one.pairs)}, factor {written(one.apart(0.5))}"
        for kind, one in found.by_kind().items()
    )
    command = evaluation.about["command"]
    share = float(command[command.index("--sample") + 1])
    drawn = f"{100 * share:g} % of the cases of {', '.join(labels[:-1])} and {labels[-1]} were drawn. "
    by_kind = f"Effects with the same verdict, and the median factor, by kind of path: {kinds}."
    return f"{drawn}{agreements.said(found)} {by_kind} {made(evaluation)}"


def matrix() -> Figure:
    """Draw the verdict of each algorithm on each case."""
    evaluation = kept()
    reference = evaluation.against[0]
    subjects = [one for one in evaluation.subjects if one != reference]
    with style.styled():
        plot = style.new_plot(1.2 + _ROW_IN * len(evaluation.cases))
        axes = plot.subplots()
        at: dict[Overall, list[tuple[int, int]]] = {verdict: [] for verdict in _LOOKS}
        for across, subject in enumerate(subjects):
            for down, case in enumerate(evaluation.cases):
                verdict = evaluation.verdict(case, subject.algorithm, reference.algorithm) or "undecided"
                at[verdict].append((across, down))
        for verdict, (colour, sign) in _LOOKS.items():
            if not sign or not at[verdict]:
                continue  # undecided is the background
            across_all, down_all = zip(*at[verdict], strict=True)
            axes.barh(down_all, 0.94, 0.86, left=[x - 0.47 for x in across_all], color=colour)
            axes.plot(across_all, down_all, marker=f"${sign}$", color="black", ms=4.5, mew=0.2, ls="none")
        axes.set_yticks(range(len(evaluation.cases)), [one.title for one in evaluation.cases], fontsize=7)
        axes.set_xticks(range(len(subjects)), [_two_lines(one.label) for one in subjects], fontsize=7.5)
        axes.set_facecolor(_LOOKS["undecided"][0])
        gaps: Any = {"color": "white", "zorder": 0.5}
        axes.hlines([n - 0.5 for n in range(len(evaluation.cases))], -1, len(subjects), lw=2, **gaps)
        axes.vlines([n - 0.5 for n in range(len(subjects))], -1, len(evaluation.cases), lw=4, **gaps)
        axes.set_xlim(-0.5, len(subjects) - 0.5)
        axes.set_ylim(len(evaluation.cases) - 0.5, -0.5)
        axes.xaxis.tick_top()
        axes.tick_params(axis="both", length=0)
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        handles = [
            Patch(label=f"{verdict} {sign}".rstrip(), color=colour)
            for verdict, (colour, sign) in _LOOKS.items()
        ]
        plot.legend(handles=handles, loc="outside upper left", ncols=len(handles), columnspacing=1.4)
        footnote(plot, f"Compared with {reference.label}, simulated, medians over {evaluation.repeats} seeds")
    return Figure(plot, f"Verdicts of {len(subjects)} algorithms on each case: {_sums(subjects)}", "")


def _sums(subjects: Sequence[Controller]) -> str:
    evaluation = kept()
    reference = evaluation.against[0]
    counts = {one.label: words.counts(evaluation, one, reference) for one in subjects}
    return "; ".join(f"{label} better in {n['better']}, worse in {n['worse']}" for label, n in counts.items())


def _two_lines(label: str) -> str:
    return label.replace(" ", "\n", 1)


FIGURES: Final = {"evaluate-gallery": matrix}
