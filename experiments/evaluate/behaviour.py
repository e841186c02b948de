"""The suite `general` of `ccp conform` as findings: behaviour that every congestion control must have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from experiments.conform import run_suite
from experiments.conform.cases import CaseResult
from experiments.conform.known import reason
from experiments.evaluate.controllers import Controller
from experiments.evaluate.findings import Finding
from experiments.writing import file_name

SUITE: Final = "general"


def findings(subjects: Sequence[Controller], out: Path) -> list[Finding]:
    """Return the cases of the suite that fail, for each controller.

    Args:
        subjects: Controllers that the simulator has.
        out: Folder of the evaluation; scenario and plot of a failure go to `general` in it.

    Raises:
        ConformError: If a case of the suite raises an exception, or a file cannot be written.
    """
    found = []
    for subject in subjects:
        place = out / SUITE / file_name(subject.label.replace("/", "-"))
        for result in run_suite(SUITE, subject.algorithm, out=place):
            if result.outcome == "fails":
                found.append(_finding(result, subject))
    return found


def _finding(result: CaseResult, subject: Controller) -> Finding:
    known = reason(SUITE, subject.given, result.case)
    text = f"fails: {result.title} ({result.source}); {result.said}{f'; known: {known}' if known else ''}"
    scenario = result.files[0] if result.files else ""
    return Finding(subject.algorithm, result.case, text, f"ccp conform {SUITE}", result.seed, scenario)
