"""An evaluation, a comparison and changes since a baseline as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.evaluate import criteria, words
from experiments.evaluate.baseline import DIRECTIONS, Changes
from experiments.evaluate.comparing import Ranking
from experiments.evaluate.evaluation import SIDES, Evaluation
from experiments.evaluate.figures import all_measures
from experiments.evaluate.page import GROUPS
from experiments.report.model import written
from experiments.statistics import Estimate


def of(evaluation: Evaluation, changes: Changes | None = None) -> str:
    """Return the evaluation of one controller."""
    subject, reference = evaluation.subject, evaluation.against[0]
    lines = [f"# Evaluation of {subject.label}", ""]
    lines += [*(words.counted(evaluation, subject, one) for one in evaluation.against), ""]
    lines += [words.error_text(evaluation), "", f"Runs: {words.spent_text(evaluation)}", ""]
    if changes is not None:
        lines += ["## Since the baseline", "", *_changes(changes), ""]
    if evaluation.findings:
        listed = (
            f"- {one.text} ({one.case}, seed {one.seed}: `{one.scenario}`)." for one in evaluation.findings
        )
        lines += ["## Findings", "", *listed, ""]
    for side_of, heading in (("worse", "Furthest behind"), ("better", "Furthest ahead")):
        if found := words.furthest(evaluation, subject, reference, side_of):
            lines += [f"## {heading}", "", *(f"- {text}." for _, text in found), ""]
    for digits, heading in GROUPS.items():
        own = [case for case in evaluation.cases if case.criterion.section.startswith(digits)]
        if not own:
            continue
        lines += [f"## {heading}", ""]
        rows = []
        for case in own:
            compared = (case, subject.algorithm, reference.algorithm)
            verdict, why = evaluation.verdict(*compared), evaluation.why(*compared)
            said = words.sentences(evaluation, case, subject, reference)
            criterion = f"{case.criterion.section} {case.criterion.title}"
            judged = words.verdict_text(verdict, why) if verdict else "not run"
            rows.append([criterion, case.title, judged, said])
        lines += [*_table(("RFC 9743", "case", f"compared with {reference.label}", "measured"), rows), ""]
    lines += ["## Not tested", ""]
    lines += [f"- {section} {what}: {why}." for section, what, why in criteria.NOT_TESTED]
    return "\n".join(lines) + "\n"


def of_comparison(evaluation: Evaluation, rankings: Mapping[str, Ranking]) -> str:
    """Return a comparison."""
    labels = {one.algorithm: one.label for one in evaluation.subjects}
    lines = [f"# Comparison of {', '.join(labels.values())}", "", words.error_text(evaluation), ""]
    for side, ranking in rankings.items():
        lines += [f"## {SIDES[side].capitalize()}", ""]
        rows = [
            [labels[name], _estimate(one), str(len(ranking.wins[name]))]
            for name, one in ranking.ranks.items()
        ]
        lines += [*_table(("congestion control", "mean rank", "measures won"), rows), ""]
        for name, won in ranking.wins.items():
            if won:
                texts = ", ".join(f"{one.label} ({one.case.criterion.section})" for one in won)
                lines += [f"{labels[name]} wins: {texts}.", ""]
        heads = ("RFC 9743", "case", "measure", *labels.values())
        rows = [
            [
                row.case.criterion.section,
                row.case.title,
                f"{row.what.label}{f' [{row.what.unit}]' if row.what.unit else ''}",
                *(_estimate(evaluation.estimate(row.case, row.what, side, name)) for name in labels),
            ]
            for row in all_measures(evaluation.cases)
        ]
        lines += [*_table(heads, rows), ""]
    return "\n".join(lines)


def _changes(changes: Changes) -> list[str]:
    lines = [changes.counted]
    for heading, verdict in DIRECTIONS.items():
        own = changes.with_verdict(verdict)
        lines += ["", f"{heading}:", "", *(f"- {one}" for one in own)] if own else []
    return lines


def _estimate(found: Estimate) -> str:
    if found.value != found.value:
        return "?"
    ends = "" if found.low != found.low else f" [{written(found.low)}, {written(found.high)}]"
    return f"{written(found.value)}{ends}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    escaped = ([cell.replace("|", "/") for cell in line] for line in lines)
    return [f"| {' | '.join(line)} |" for line in escaped]
