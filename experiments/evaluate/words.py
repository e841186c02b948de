"""An evaluation in sentences."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

from experiments.evaluate.cases import Case
from experiments.evaluate.controllers import Controller
from experiments.evaluate.effects import WHYS, Effect, Overall, Why
from experiments.evaluate.evaluation import SIDES, Evaluation
from experiments.evaluate.measures import Measure
from experiments.evaluate.running import SIMULATOR
from experiments.report.model import written

VERDICTS: Final[dict[Overall, str]] = {
    "better": "better",
    "worse": "worse",
    "mixed": "mixed",
    "undecided": "undecided",
}
"""Verdict -> its words."""
NEXT: Final[dict[Why, str]] = {
    "more seeds": "too few, or they differ too much: raise --repeats",
    "model": "within the simulator's error: real sockets decide",
    "not measured": "runs failed",
    "about the same": "nothing to do",
}
"""Why something is undecided -> what that means, and what to do."""

FURTHEST: Final = 5
"""Effects that the summary names on each side."""


def value_text(what: Measure, value: float, aside: str = "") -> str:
    """Return a value with its unit, and how it relates to the empty path or an equal share.

    Args:
        what: The measure.
        value: The value; NaN if it was not measured.
        aside: More to say in brackets.
    """
    if math.isnan(value):
        return "not measured"
    text, notes = plain(what, value), [aside] if aside else []
    if what.empty and what.unit == "ms":
        text += f", {written(value - what.empty)} ms above the empty path"
    elif what.empty:
        notes.insert(0, f"{100 * value / what.empty:.0f} % of {what.empty_is}")
    return f"{text} ({'; '.join(notes)})" if notes else text


def plain(what: Measure, value: float) -> str:
    """Return a value with its unit."""
    return f"{written(value)} {what.unit}".rstrip()


def ratio_text(effect: Effect, reference: Controller) -> str:
    """Return an effect as text, with the interval that decides."""
    found = effect.judged
    if math.isnan(found.value):
        return "not compared"
    ends = "" if math.isnan(found.low) else f" [{_from_1(found.low)}, {_from_1(found.high)}]"
    return f"{_from_1(found.value)} times that of {reference.label}{ends}"


def _from_1(ratio: float) -> str:
    """Return a ratio with as many digits as distinguish it from 1."""
    return written(ratio, (1.0,))


def sentence(
    evaluation: Evaluation, case: Case, side: str, subject: Controller, reference: Controller
) -> str:
    """Return what a case shows on one side."""
    groups: dict[str, list[str]] = {}
    for what in case.measures:
        found = evaluation.estimate(case, what, side, subject.algorithm)
        effect = evaluation.effect(case, what, side, subject.algorithm, reference.algorithm)
        text = f"{what.label} {value_text(what, found.value)}"
        if not what.better:
            other = evaluation.estimate(case, what, side, reference.algorithm)
            aside = f"{reference.label}: {plain(what, other.value)}" if other.n else ""
            shown = f"{what.label} {value_text(what, found.value, aside)}"
            groups.setdefault("", []).append(shown)
        elif effect.verdict in {"better", "worse"}:
            groups.setdefault(effect.verdict.capitalize(), []).append(
                f"{text}, {ratio_text(effect, reference)}"
            )
        elif effect.why in {"about the same", "not measured"}:
            groups.setdefault(effect.why.capitalize(), []).append(text)
        else:
            needed = f", try {effect.seeds_needed} seeds" if effect.seeds_needed else ""
            groups.setdefault(f"Undecided ({effect.why})", []).append(
                f"{text}, {ratio_text(effect, reference)}{needed}"
            )
    order = sorted(groups, key=lambda name: ("Worse", "Better", name, "").index(name))
    said = (f"{name}: {'; '.join(groups[name])}" if name else "; ".join(groups[name]) for name in order)
    return ". ".join(one[:1].upper() + one[1:] for one in said) + "."


def sentences(evaluation: Evaluation, case: Case, subject: Controller, reference: Controller) -> str:
    """Return what a case shows on each side that measured it."""
    return " ".join(
        (f"{SIDES[side].capitalize()}: " if len(evaluation.sides) > 1 else "")
        + sentence(evaluation, case, side, subject, reference)
        for side in evaluation.sides
        if evaluation.measured(case, side, subject.algorithm)
    )


def counts(evaluation: Evaluation, subject: Controller, reference: Controller) -> Counter[Overall]:
    """Return the number of cases with each verdict."""
    verdicts = (evaluation.verdict(case, subject.algorithm, reference.algorithm) for case in evaluation.cases)
    return Counter(one for one in verdicts if one is not None)


def why_counts(evaluation: Evaluation, subject: Controller, reference: Controller) -> Counter[Why]:
    """Return the number of undecided cases for each reason."""
    reasons = (evaluation.why(case, subject.algorithm, reference.algorithm) for case in evaluation.cases)
    return Counter(one for one in reasons if one)


def verdict_text(verdict: Overall, why: Why) -> str:
    """Return a verdict with the reason why it is undecided."""
    return f"{VERDICTS[verdict]} ({why})" if why else VERDICTS[verdict]


def counted(evaluation: Evaluation, subject: Controller, reference: Controller) -> str:
    """Return a sentence with the number of cases with each verdict, and why cases are undecided."""
    found = counts(evaluation, subject, reference)
    numbers = ", ".join(f"{text} in {found[name]}" for name, text in VERDICTS.items() if found[name])
    reasons = why_counts(evaluation, subject, reference)
    texts = ", ".join(f"{why} {reasons[why]} ({NEXT[why]})" for why in WHYS if reasons[why])
    return (
        f"Compared with {reference.label} in {found.total()} case{'s' * (found.total() != 1)}, "
        f"{subject.label} is "
        f"{numbers or 'not measured'}{f': {texts}' if texts else ''}."
    )


@dataclass(frozen=True)
class Largest:
    """The largest effect of a case.

    Attributes:
        case: The case.
        what: The measure.
        side: The side that decides.
        effect: The effect.
    """

    case: Case
    what: Measure
    side: str
    effect: Effect


def largest(
    evaluation: Evaluation, subject: Controller, reference: Controller, verdict: str
) -> list[Largest]:
    """Return the largest effects with a verdict, the largest first, at most one of each case."""
    found = []
    for case in evaluation.cases:
        side = evaluation.deciding(case, subject.algorithm)
        own = []
        for what in case.measures if side else ():
            effect = evaluation.effect(case, what, side, subject.algorithm, reference.algorithm)
            if effect.verdict == verdict and effect.ratio:
                own.append(Largest(case, what, side, effect))
        if own:
            found.append(max(own, key=_size))
    return sorted(found, key=_size, reverse=True)[:FURTHEST]


def _size(one: Largest) -> float:
    return abs(math.log(one.effect.ratio or 1.0))


def furthest(
    evaluation: Evaluation, subject: Controller, reference: Controller, verdict: str
) -> list[tuple[Case, str]]:
    """Return the largest effects with a verdict as text, the largest first, at most one of each case."""
    found = []
    for one in largest(evaluation, subject, reference, verdict):
        value = evaluation.estimate(one.case, one.what, one.side, subject.algorithm).value
        text = f"{one.case.title}: {one.what.label} {value_text(one.what, value)}, "
        found.append((one.case, f"{text}{ratio_text(one.effect, reference)} ({one.case.criterion.section})"))
    return found


def spent_text(evaluation: Evaluation) -> str:
    """Return what the runs took, as a sentence."""
    parts = []
    for one in evaluation.spent:
        now = "all new" if one.now == one.runs else f"{one.now or 'none'} of them new"
        missing = f", {one.missing} missing" if one.missing else ""
        missing += f", {one.disturbed} disturbed, which do not count" if one.disturbed else ""
        took = f": {one.wall_s:.0f} s, {one.cpu_s:.0f} s of processor time" if one.now else ""
        parts.append(f"{one.runs} runs ({SIDES[one.side]}, {now}{missing}{took})")
    return "; ".join(parts) + "."


def error_text(evaluation: Evaluation) -> str:
    """Return how verdicts come about, as sentences."""
    own = (
        f"Ratios compare runs with the same seed; intervals are 95 % intervals of the median over "
        f"{evaluation.repeats} seeds. "
    )
    simulated = (
        "The interval of a simulated ratio also includes the simulator's error on such paths, the 90th "
        "percentile over scenarios drawn at random. "
    )
    deciding = "An effect is better or worse if its whole interval is on one side of 1. "
    both = "Where there are runs on real sockets, they decide. "
    text = own
    if SIMULATOR in evaluation.sides:
        text += simulated
    text += deciding
    if len(evaluation.sides) > 1:
        text += both
    text += "Retransmissions below 0.1 % count as 0.1 %. "
    return text + "RFC 9743 has no thresholds, so nothing here passes or fails."
