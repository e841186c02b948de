"""The HTML report of an evaluation, and of a comparison."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from experiments.evaluate import criteria, figures, words
from experiments.evaluate.agreement import QUANTILE, agreement, said
from experiments.evaluate.baseline import DIRECTIONS, Changes
from experiments.evaluate.cases import Case
from experiments.evaluate.comparing import Ranking
from experiments.evaluate.controllers import Controller
from experiments.evaluate.effects import Effect, Overall
from experiments.evaluate.evaluation import SIDES, Evaluation
from experiments.evaluate.measures import Measure
from experiments.evaluate.running import SIMULATOR, SOCKETS
from experiments.plots import as_svg
from experiments.report import (
    Column,
    Evidence,
    Measured,
    Picture,
    Report,
    Row,
    Section,
    Source,
    Table,
    Verdict,
)
from experiments.report.model import Cell

GROUPS: Final[Mapping[str, str]] = {
    "5.1": "Alone and among its own flows",
    "5.2": "Next to other congestion controls",
    "5.3": "Existing equipment",
    "6": "General use",
    "7": "Special cases",
}
"""First digits of sections of RFC 9743 -> headings."""

_VERDICTS: Final[Mapping[Overall, Verdict]] = {
    "better": "holds",
    "worse": "fails",
    "mixed": "mixed",
    "undecided": "undecided",
}
_WORDS: Final = {"holds": "is better", "fails": "is worse"}


def report_of(evaluation: Evaluation, changes: Changes | None = None) -> Report:
    """Return the report of the evaluation of one controller, with changes since a baseline."""
    subject, reference = evaluation.subject, evaluation.against[0]
    sections = [
        *([] if changes is None else _changes(changes)),
        *_findings(evaluation),
        *_furthest(evaluation, subject, reference),
        *_cases(evaluation, subject, reference),
    ]
    sections += [
        Section(
            f"Effects compared with {one.label}",
            pictures=[
                Picture(
                    f"All effects of {subject.label} compared with {one.label}",
                    as_svg(figures.effects(evaluation, subject, one)),
                )
            ],
        )
        for one in evaluation.against
    ]
    sections += _agreement(evaluation)
    about = " ".join(
        (
            f"What {subject.label} does by the criteria of RFC 9743.",
            *(words.counted(evaluation, subject, one) for one in evaluation.against),
            words.error_text(evaluation),
            f"Runs: {words.spent_text(evaluation)}",
        )
    )
    return Report(
        f"Evaluation of {subject.label}",
        [*sections, _not_tested()],
        about,
        "cases",
        _WORDS,
        f"{subject.label} is better",
        ", in the simulator with its error" if SIMULATOR in evaluation.sides else "",
    )


def _changes(changes: Changes) -> list[Section]:
    sections = [Section("Since the baseline", about=changes.counted)]
    for heading, verdict in DIRECTIONS.items():
        rows = [
            Row(f"{verdict}-before-{number}", str(one), None, about=one.case.about)
            for number, one in enumerate(changes.with_verdict(verdict), 1)
        ]
        if rows:
            sections.append(Section(f"{heading} than in the baseline", rows, heading="change", counted=False))
    return sections


def _findings(evaluation: Evaluation) -> list[Section]:
    if not evaluation.findings:
        return []
    labels = {one.algorithm: one.label for one in (*evaluation.subjects, *evaluation.against)}
    rows = [
        Row(
            f"finding-{number}",
            one.text if len(evaluation.subjects) == 1 else f"{labels[one.algorithm]}: {one.text}",
            None,
            [],
            source=f"{one.case}, seed {one.seed}",
            command=f"ccp experiment run {one.scenario}",
        )
        for number, one in enumerate(evaluation.findings, 1)
    ]
    about = "What is wrong, whatever the figures say, with the scenario that shows it."
    return [Section("Findings", rows, about=about, heading="finding", counted=False)]


def _furthest(evaluation: Evaluation, subject: Controller, reference: Controller) -> list[Section]:
    found = []
    for verdict, heading in (("worse", "Furthest behind"), ("better", "Furthest ahead")):
        rows = [
            Row(f"{verdict}-{number}", text, None, about=case.about)
            for number, (case, text) in enumerate(words.furthest(evaluation, subject, reference, verdict), 1)
        ]
        if rows:
            found.append(Section(heading, rows, heading="effect", counted=False))
    return found


def _cases(evaluation: Evaluation, subject: Controller, reference: Controller) -> list[Section]:
    source = source_of(evaluation)
    found = []
    for digits, heading in GROUPS.items():
        own = [case for case in evaluation.cases if case.criterion.section.startswith(digits)]
        rows = [_row(evaluation, case, subject, reference, source) for case in own]
        if rows:
            questions = {one.criterion: None for one in own}
            about = " ".join(f"{one.section} {one.title}: {one.question}" for one in questions)
            sides = [
                SIDES[side] + (", with its error" if side == SIMULATOR else "") for side in evaluation.sides
            ]
            found.append(Section(f"{heading} (section {digits})", rows, sides, about, "case"))
    return found


def _row(
    evaluation: Evaluation, case: Case, subject: Controller, reference: Controller, source: Source
) -> Row:
    verdict = evaluation.verdict(case, subject.algorithm, reference.algorithm)
    return Row(
        case.key,
        case.title,
        "not run" if verdict is None else _VERDICTS[verdict],
        [_evidence(evaluation, case, side, subject, reference, source) for side in evaluation.sides],
        source=f"{case.criterion.section} {case.criterion.title}",
        about=case.about,
        why=words.sentences(evaluation, case, subject, reference),
        note=evaluation.why(case, subject.algorithm, reference.algorithm),
        command=_command(evaluation, case, subject),
        drawing=_drawing(evaluation, case, subject),
    )


def _command(evaluation: Evaluation, case: Case, subject: Controller) -> str:
    """Return the command that evaluates a case alone, where it was run."""
    others = [one.given for one in evaluation.against[1:]]
    parts = ["ccp", "evaluate", subject.given, "--only", case.key, "--repeats", str(evaluation.repeats)]
    parts += [word for other in others for word in ("--against", other)]
    real = evaluation.measured(case, SOCKETS, subject.algorithm)
    return shlex.join(["sudo", *parts] if real else [*parts, "--quick"])


def _drawing(evaluation: Evaluation, case: Case, subject: Controller) -> str:
    side = evaluation.deciding(case, subject.algorithm)
    folder = evaluation.folders.get((case.key, side, subject.algorithm))
    return "" if folder is None else shlex.join(["ccp", "experiment", "plot", str(folder)])


def _evidence(
    evaluation: Evaluation, case: Case, side: str, subject: Controller, reference: Controller, source: Source
) -> Evidence | None:
    if not evaluation.measured(case, side, subject.algorithm):
        return None
    effects = [
        (what, evaluation.effect(case, what, side, subject.algorithm, reference.algorithm))
        for what in case.measures
        if what.better
    ]
    effects.sort(key=_interest, reverse=True)
    return Evidence(
        [_measured(what, effect, reference) for what, effect in effects],
        _VERDICTS[evaluation.verdict_on(case, side, subject.algorithm, reference.algorithm)],
        source=source,
        tables=[_table(evaluation, case, side)],
    )


def _interest(found: tuple[Measure, Effect]) -> tuple[bool, bool, float]:
    """Return what sorts effects: worse ones last, because the first undecided or failing one is shown."""
    effect = found[1]
    size = max(effect.ratio or 1.0, 1 / (effect.ratio or 1.0))
    return effect.verdict == "worse", effect.verdict == "better", size


def _measured(what: Measure, effect: Effect, reference: Controller) -> Measured:
    more = what.better == "more"
    return Measured(
        what.label,
        effect.judged,
        1.0 if more else None,
        None if more else 1.0,
        f"× {reference.label} ({what.label})",
        "seed",
        note=f"{effect.why}, try {effect.seeds_needed}" if effect.seeds_needed else effect.why,
        given=_VERDICTS[effect.verdict or "undecided"],
    )


def _table(evaluation: Evaluation, case: Case, side: str) -> Table:
    columns = [Column("measure", "measure"), Column("unit", "unit")]
    controllers = (*evaluation.subjects, *evaluation.against)
    columns += [Column(one.algorithm, one.label, is_value=True, has_interval=True) for one in controllers]
    rows = []
    for what in case.measures:
        found = [evaluation.estimate(case, what, side, one.algorithm) for one in controllers]
        ends = [x for one in found for x in (one.value, one.low, one.high)]
        rows.append([what.label, what.unit, *(None if x != x else x for x in ends)])
    return Table(
        f"{case.title}: {SIDES[side]}",
        f"{case.key}-{side}",
        columns,
        rows,
        f"{case.about} Medians over {evaluation.repeats} seeds, with 95 % intervals.",
        drawable=False,
    )


def _agreement(evaluation: Evaluation) -> list[Section]:
    found = agreement(evaluation)
    if not found.pairs:
        return []
    rows: list[list[Cell]] = [
        [kind, len(one.pairs), one.same, one.opposite, one.covered, one.apart(0.5), one.apart(QUANTILE)]
        for kind, one in found.by_kind().items()
    ]
    table = Table(
        "effects in the simulator and on real sockets",
        "agreement",
        [
            Column("kind", "kind of path"),
            Column("effects", "effects"),
            Column("same", "same verdict"),
            Column("opposite", "opposite verdicts"),
            Column("within", "within the simulator's error"),
            Column("apart_p50", "ratios apart, median"),
            Column("apart_p90", "ratios apart, 90th percentile"),
        ],
        rows,
        f"Effects compared with {evaluation.against[0].label} that have an interval on both sides.",
        drawable=False,
    )
    return [Section("Agreement of simulator and real sockets", about=said(found), tables=[table])]


def _not_tested() -> Section:
    rows = [
        Row(
            f"not-tested-{number}",
            what,
            "not tested",
            [],
            source=section,
            why=f"{why[:1].upper()}{why[1:]}.".replace("`", ""),
        )
        for number, (section, what, why) in enumerate(criteria.NOT_TESTED, 1)
    ]
    return Section("Not tested", rows, heading="criterion")


def source_of(evaluation: Evaluation) -> Source:
    """Return where the figures come from."""
    simulated = {"kernel": "none: simulated"} if evaluation.sides == (SIMULATOR,) else {}
    return Source.of(
        evaluation.about,
        runs=words.spent_text(evaluation),
        seeds=f"1 to {evaluation.repeats}",
        **simulated,
    )


# --- several controllers -----------------------------------------------------------------------------------


def comparison_of(evaluation: Evaluation, rankings: Mapping[str, Ranking]) -> Report:
    """Return the report of a comparison, with a ranking for each side."""
    reference = evaluation.against[0]
    sections = []
    for side, ranking in rankings.items():
        sections.append(
            Section(
                f"Ranks: {SIDES[side]}",
                about="The mean rank over all criteria, each of which counts equally; 1 is best.",
                tables=[_ranks(evaluation, side, ranking)],
            )
        )
        sections.append(
            Section(
                f"Where each one wins: {SIDES[side]}",
                [
                    Row(
                        f"wins-{side}-{number}",
                        one.label,
                        None,
                        [],
                        why="; ".join(
                            f"{row.label} ({row.case.criterion.section})"
                            for row in ranking.wins[one.algorithm]
                        )
                        or "nowhere ahead of all others with its whole interval",
                    )
                    for number, one in enumerate(evaluation.subjects, 1)
                ],
                heading="congestion control",
                counted=False,
            )
        )
        sections.append(
            Section(
                f"Effects compared with {reference.label}: {SIDES[side]}",
                pictures=[
                    Picture(
                        f"Effects compared with {reference.label}",
                        as_svg(figures.next_to_each_other(evaluation, reference, side)),
                    )
                ],
                tables=[_values(evaluation, side)],
            )
        )
    sections += [*_agreement(evaluation), *_findings(evaluation)]
    names = ", ".join(one.label for one in evaluation.subjects)
    about = f"{words.error_text(evaluation)} Runs: {words.spent_text(evaluation)}"
    return Report(f"Comparison of {names}", sections, about, "measures")


def _ranks(evaluation: Evaluation, side: str, ranking: Ranking) -> Table:
    labels = {one.algorithm: one.label for one in evaluation.subjects}
    rows: list[list[Cell]] = [
        [labels[algorithm], found.value, found.low, found.high, len(ranking.wins[algorithm])]
        for algorithm, found in ranking.ranks.items()
    ]
    return Table(
        "mean rank over the criteria",
        f"ranks-{side}",
        [
            Column("algorithm", "congestion control"),
            Column("rank", "mean rank", is_value=True, has_interval=True),
            Column("wins", "measures won", is_value=True),
        ],
        rows,
        "Median over the seeds with its 95 % interval. A measure is won with an interval ahead of each other "
        "one's.",
    )


def _values(evaluation: Evaluation, side: str) -> Table:
    columns = [Column(name, name) for name in ("section", "case", "measure", "unit")]
    columns += [
        Column(one.algorithm, one.label, is_value=True, has_interval=True) for one in evaluation.subjects
    ]
    rows: list[list[Cell]] = []
    for row in figures.all_measures(evaluation.cases):
        found = [evaluation.estimate(row.case, row.what, side, one.algorithm) for one in evaluation.subjects]
        cells: list[Cell] = [row.case.criterion.section, row.case.title, row.what.label, row.what.unit]
        cells += [None if x != x else x for one in found for x in (one.value, one.low, one.high)]
        rows.append(cells)
    return Table(
        "all measures",
        f"measures-{side}",
        columns,
        rows,
        f"Medians over {evaluation.repeats} seeds.",
        drawable=False,
    )
