"""The outcome of an evaluation as data, and its JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from experiments import records
from experiments.bench.result import describe_run
from experiments.evaluate import criteria
from experiments.evaluate.cases import Case, all_cases
from experiments.evaluate.controllers import Controller, references
from experiments.evaluate.effects import Effect, Overall, Why, compared, overall, overall_why
from experiments.evaluate.errors import EvaluateError
from experiments.evaluate.findings import Finding
from experiments.evaluate.measures import Measure
from experiments.evaluate.model_error import error
from experiments.evaluate.running import SIMULATOR, SOCKETS, Measurements
from experiments.statistics import Estimate, median_interval

FORMAT: Final = 1
"""Format of the JSON."""
SIDES: Final = {SOCKETS: "real sockets", SIMULATOR: "simulator"}
"""Sides in the order in which they decide, with their names."""
_NOWHERE: Final = Path("traces")
"""Folder of trace files where cases are only described."""


class Values(msgspec.Struct, frozen=True):
    """A controller's figures of one measure on one side.

    Attributes:
        case: The case.
        measure: The measure.
        side: The side.
        algorithm: The controller's algorithm.
        values: One for each seed, from 1; None for a failed run.
    """

    case: str
    measure: str
    side: str
    algorithm: str
    values: tuple[float | None, ...]


class Spent(msgspec.Struct, frozen=True):
    """What the runs of one side took.

    Attributes:
        side: The side.
        runs: Number of runs; those shared by controllers count once.
        now: Of these, runs that were not there yet.
        missing: Runs that failed or were not done.
        wall_s: Time that they took [s].
        cpu_s: Processor time that they took on this machine [s].
        disturbed: Runs that do not count, because other work disturbed them.
    """

    side: str
    runs: int
    now: int
    missing: int
    wall_s: float
    cpu_s: float
    disturbed: int = 0


class Evaluation:
    """What was measured of some controllers, compared with references.

    Attributes:
        subjects: Controllers that are evaluated, one or more.
        against: Controllers that they are compared with; the first one is the standard's.
        cases: The cases.
        repeats: Number of seeds.
        spent: What the runs took, by side.
        findings: What is wrong, whatever the figures say.
        about: Command line, git revision, date and machine.
        folders: Case, side and algorithm -> the folder of a run to draw; empty if it was read from a file.
    """

    def __init__(
        self,
        subjects: Sequence[Controller],
        against: Sequence[Controller],
        cases: Sequence[Case],
        repeats: int,
        values: Sequence[Values],
        spent: Sequence[Spent],
        findings: Sequence[Finding] = (),
        about: Mapping[str, Any] | None = None,
        folders: Mapping[tuple[str, str, str], Path] | None = None,
    ) -> None:
        """Use `of` or `from_json` instead."""
        self.subjects = tuple(subjects)
        self.against = tuple(against)
        self.cases = tuple(cases)
        self.repeats = repeats
        self.spent = tuple(spent)
        self.findings: list[Finding] = list(findings)
        self.about = dict(describe_run() if about is None else about)
        self.folders = dict(folders or {})
        self._values = {(one.case, one.measure, one.side, one.algorithm): one for one in values}

    @classmethod
    def of(
        cls,
        subjects: Sequence[Controller],
        against: Sequence[Controller],
        cases: Sequence[Case],
        repeats: int,
        sides: Sequence[Measurements],
        findings: Sequence[Finding] = (),
    ) -> Self:
        """Return the evaluation of measurements on one or both sides, and of findings from elsewhere."""
        values = [
            Values(case, measure, one.side, algorithm, tuple(_json(x) for x in found))
            for one in sides
            for (case, measure, algorithm), found in one.values.items()
        ]
        spent = [
            Spent(
                one.side,
                one.runs,
                one.now,
                one.missing,
                round(one.wall_s, 1),
                round(one.cpu_s, 1),
                one.disturbed,
            )
            for one in sides
        ]
        in_runs = [finding for one in sides for finding in one.findings]
        folders = {
            (case, one.side, algorithm): folder
            for one in sides
            for (case, algorithm), folder in one.folders.items()
        }
        return cls(subjects, against, cases, repeats, values, spent, [*in_runs, *findings], folders=folders)

    def alone(self, subject: Controller) -> Self:
        """Return the evaluation of one controller out of a comparison, compared with what it usually is."""
        findings = [one for one in self.findings if one.algorithm == subject.algorithm]
        values = list(self._values.values())
        return type(self)(
            (subject,),
            references((subject,), ()),
            self.cases,
            self.repeats,
            values,
            self.spent,
            findings,
            self.about,
        )

    # --- reading -----------------------------------------------------------------------------------------

    @property
    def subject(self) -> Controller:
        """The controller that is evaluated, or the first of several."""
        return self.subjects[0]

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides that were run, in the order in which they decide."""
        run = {one.side for one in self.spent}
        return tuple(side for side in SIDES if side in run)

    @property
    def complete(self) -> bool:
        """Whether no run failed or is missing."""
        return not any(one.missing for one in self.spent)

    def values(self, case: Case, what: Measure, side: str, algorithm: str) -> list[float]:
        """Return the values by seed; NaN for failed runs, empty if it was not measured."""
        found = self._values.get((case.key, what.key, side, algorithm))
        return [] if found is None else [math.nan if one is None else one for one in found.values]

    def estimate(self, case: Case, what: Measure, side: str, algorithm: str) -> Estimate:
        """Return the median over the seeds with its interval."""
        return median_interval(self.values(case, what, side, algorithm))

    def effect(self, case: Case, what: Measure, side: str, subject: str, against: str) -> Effect:
        """Return a subject's effect compared with another controller."""
        return compared(
            what,
            against,
            self.values(case, what, side, subject),
            self.values(case, what, side, against),
            error(case.kind, what.quantity) if side == SIMULATOR else 0.0,
        )

    def measured(self, case: Case, side: str, subject: str) -> bool:
        """Whether a case was measured."""
        return any(x == x for what in case.measures for x in self.values(case, what, side, subject))

    def verdict(self, case: Case, subject: str, against: str) -> Overall | None:
        """Return the verdict on a case, on the side that decides; None without runs."""
        side = self.deciding(case, subject)
        return self.verdict_on(case, side, subject, against) if side else None

    def why(self, case: Case, subject: str, against: str) -> Why:
        """Return why a case is undecided, on the side that decides; empty if decided, or without runs."""
        side = self.deciding(case, subject)
        return self.why_on(case, side, subject, against) if side else ""

    def deciding(self, case: Case, subject: str) -> str:
        """Return the side that decides on a case: real sockets if there are runs; empty without any."""
        return next((side for side in self.sides if self.measured(case, side, subject)), "")

    def verdict_on(self, case: Case, side: str, subject: str, against: str) -> Overall:
        """Return the verdict on a case on one side."""
        return overall(one.verdict for one in self._effects(case, side, subject, against))

    def why_on(self, case: Case, side: str, subject: str, against: str) -> Why:
        """Return why a case is undecided on one side; empty if it is decided."""
        return overall_why(self._effects(case, side, subject, against))

    def _effects(self, case: Case, side: str, subject: str, against: str) -> list[Effect]:
        return [self.effect(case, what, side, subject, against) for what in case.measures]

    # --- JSON --------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the evaluation as a JSON object, with effects and verdicts for other programs."""
        effects = [
            {
                "case": case.key,
                "measure": what.key,
                "side": side,
                "algorithm": subject.algorithm,
                **self.effect(case, what, side, subject.algorithm, reference.algorithm).records(),
            }
            for case in self.cases
            for what in case.measures
            for side in self.sides
            for subject in self.subjects
            for reference in self.against
        ]
        described = [
            {
                "case": case.key,
                "section": case.criterion.section,
                "criterion": case.criterion.title,
                "title": case.title,
                "about": case.about,
                "path": case.kind,
                "measures": {
                    what.key: {"label": what.label, "unit": what.unit, "better": what.better or None}
                    for what in case.measures
                },
            }
            for case in self.cases
        ]
        not_tested = [
            {"section": section, "what": what, "why": why} for section, what, why in criteria.NOT_TESTED
        ]
        return records.dumped(
            {
                "format": FORMAT,
                **self.about,
                "algorithms": [vars(one) for one in self.subjects],
                "against": [vars(one) for one in self.against],
                "repeats": self.repeats,
                "spent": msgspec.to_builtins(self.spent),
                "cases": described,
                "values": msgspec.to_builtins(list(self._values.values())),
                "effects": effects,
                "findings": msgspec.to_builtins(self.findings),
                "not_tested": not_tested,
            }
        )

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Return an evaluation from its JSON. Cases that this version does not have are left out.

        Raises:
            EvaluateError: `evaluate.bad_file`.
        """
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise ValueError(f"its format is {data['format']}, not {FORMAT}")
            there = {one["case"] for one in data["cases"]}
            return cls(
                [Controller(**one) for one in data["algorithms"]],
                [Controller(**one) for one in data["against"]],
                [one for one in all_cases(_NOWHERE) if one.key in there],
                data["repeats"],
                msgspec.convert(data["values"], list[Values]),
                msgspec.convert(data["spent"], list[Spent]),
                msgspec.convert(data["findings"], list[Finding]),
                {name: data[name] for name in ("command", "git", "date", "host")},
            )
        except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
            raise EvaluateError(
                "evaluate.bad_file",
                f"{where} does not contain an evaluation",
                where,
                f"{type(error).__name__}: {error}",
                "create it again with `ccp evaluate ALGORITHM --json FILE`",
            ) from error


def read(file: Path) -> Evaluation:
    """Return the evaluation in a file.

    Raises:
        EvaluateError: `evaluate.bad_file`.
    """
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluateError(
            "evaluate.bad_file",
            f"cannot read {file}",
            str(file),
            getattr(error, "strerror", "") or str(error),
            "create it with `ccp evaluate ALGORITHM --json FILE`",
        ) from error
    return Evaluation.from_json(text, str(file))


def _json(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")
