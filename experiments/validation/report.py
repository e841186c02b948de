"""The report of the simulator's accuracy: errors on drawn scenarios."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from experiments.report import Chart, Column, Evidence, Measured, Points, Report, Row, Section, Source, Table
from experiments.report.html import slug
from experiments.report.model import Cell
from experiments.statistics import Estimate, median_interval
from experiments.validation.heldout import QUANTITIES, Case, Heldout, Quantity

RESULTS: Final = Path(__file__).parents[2] / "docs/results/validation"

_ABOUT: Final = (
    "How far the simulator is from this kernel on randomly drawn scenarios. An error compares one simulated "
    "run with one run of the kernel. A quantity holds if the median error over the scenarios is within the "
    "goal. The verdict is that of the newest draw."
)

_EDGE_GOALS: Final = 5
"""Errors are drawn up to this number of goals."""


def read(folder: Path = RESULTS) -> dict[str, Heldout]:
    """Return the kept draws by name.

    Raises:
        BenchError: `bench.cannot_read`.
    """
    files = sorted(folder.glob("draw-*.json"))
    return {file.stem: Heldout.from_json(file.read_text(), str(file)) for file in files}


def report_of(draws: Mapping[str, Heldout]) -> Report:
    """Return the report of draws."""
    newest = max(draws.values(), key=lambda one: str(one.about["date"]))
    tables = {name: _cases(name, one) for name, one in draws.items()}
    rows = []
    for what in QUANTITIES:
        sides = {name: _side(what, one, tables[name]) for name, one in draws.items()}
        verdict = next(sides[name].verdict for name, one in draws.items() if one is newest)
        rows.append(
            Row(
                slug(what.description),
                f"{what.description}: the median error is at most {what.written(what.goal)}",
                verdict,
                [*sides.values()],
                about=_ERRORS.get(what.column, "error relative to the kernel's value"),
            )
        )
    titles = [f"{name.replace('-', ' ')}, {len(one.cases)} scenarios" for name, one in draws.items()]
    sections = [Section("Drawn scenarios", rows, titles, heading="quantity")]
    return Report("Accuracy of the simulator", sections, _ABOUT, "quantities")


_ERRORS: Final = {
    "retrans_pkts": "error relative to the kernel's packets, or to 25 packets if the kernel had fewer",
    "jain_index": "difference of Jain's index; scenarios with several flows",
}
"""Column -> what its error is, where it is not relative."""


def _side(what: Quantity, draw: Heldout, table: Table) -> Evidence:
    several = {one.name for one in draw.cases if len(one.algorithms) > 1}

    def errors(found: Mapping[str, Mapping[str, float]]) -> list[float]:
        return [
            one[what.column] * what.scale
            for name, one in found.items()
            if what.column != "jain_index" or name in several
        ]

    own, repeated = errors(draw.errors()), errors(draw.kernels_own())
    goal = what.goal * what.scale
    unit = what.unit.strip()
    median = Measured("error of the simulator", _known(own), None, goal, unit, "scenario")
    runs = Measured(
        "difference between two runs of the kernel", _known(repeated), unit=unit, counted="scenario"
    )
    within = f"{sum(one <= goal for one in own)} of {len(own)} within the goal"
    if repeated:
        within += f"; kernel against itself: {sum(one <= goal for one in repeated)} of {len(repeated)}"
    source = Source.of(draw.about, runs=draw.reported_left_out(), seeds=_seeds(draw))
    return Evidence(
        [median, runs], median.verdict, within, source, [table], _charts(what, draw, several),
        value=f"error.{what.column}",
    )  # fmt: skip


def _known(errors: Iterable[float]) -> Estimate:
    return median_interval([one for one in errors if one == one])


def _seeds(draw: Heldout) -> str:
    words = draw.about["command"]
    return words[words.index("--seed") + 1] if "--seed" in words[:-1] else "1"


def _charts(what: Quantity, draw: Heldout, several: set[str]) -> list[Chart]:
    """Return the errors, and the simulator's values over the kernel's, coloured by the kind of path."""
    values_of = {
        name: (kernel[what.column], simulator[what.column]) for name, kernel, simulator in draw.pairs()
    }
    shown = [one for one in draw.cases if one.name in values_of]
    if what.column == "jain_index":
        shown = [one for one in shown if one.name in several]
    goal = what.goal * what.scale
    edge = _EDGE_GOALS * goal
    errors, values = [], []
    for kind in sorted({one.kind for one in shown}):
        own = [one for one in shown if one.kind == kind]
        kernel = [values_of[one.name][0] for one in own]
        simulator = [values_of[one.name][1] for one in own]
        signed = [
            math.copysign(what.error(second, first) * what.scale, second - first)
            for first, second in zip(kernel, simulator, strict=True)
        ]
        names = [
            f"{one.name}, {one.description}; {_flows(one)}: {error:+.3g}{what.unit}"
            for one, error in zip(own, signed, strict=True)
        ]
        x = [one * what.value_scale for one in kernel]
        clipped = [None if one != one else min(max(one, -edge), edge) for one in signed]
        errors.append(Points(kind, x, clipped, names))
        values.append(Points(kind, x, [one * what.value_scale for one in simulator], names))
    unit = what.value_unit.strip() or ("packets" if what.column == "retrans_pkts" else "")
    label = f"{what.description} [{unit}]" if unit else what.description
    log = what.column not in {"jain_index", "retrans_pkts"}
    beyond = f"errors beyond ±{what.written(edge / what.scale)} are at the edge"
    return [
        Chart(
            f"Error of each scenario; the band is the goal; {beyond}",
            f"kernel: {label}",
            f"error [{what.unit.strip()}]" if what.unit else "error",
            errors,
            x_log=log,
            at_least=-goal,
            at_most=goal,
        ),
        Chart(
            "Each scenario on both sides",
            f"kernel: {label}",
            f"simulator: {label}",
            values,
            log,
            log,
            diagonal_ratio=what.goal,
        ),
    ]


def _flows(case: Case) -> str:
    counts = Counter(case.algorithms)
    return ", ".join(f"{count} {name}" if count > 1 else name for name, count in counts.items())


def _cases(name: str, draw: Heldout) -> Table:
    errors = draw.errors()
    columns = [
        Column("case", "case"),
        Column("kind", "kind"),
        Column("path", "path"),
        Column("flows", "flows"),
    ]
    for what in QUANTITIES:
        unit = what.value_unit.strip()
        columns += [
            Column(f"{side}.{what.column}", f"{what.description}, {side}", unit, what.value_scale, True)
            for side in ("kernel", "simulator")
        ]
        columns.append(
            Column(f"error.{what.column}", f"{what.description}, error", what.unit.strip(), what.scale, True)
        )
    cases = {one.name: one for one in draw.cases}
    rows: list[list[Cell]] = []
    for case, kernel, simulator in draw.pairs():
        one = cases[case]
        values = [
            value
            for what in QUANTITIES
            for value in (kernel[what.column], simulator[what.column], errors[case][what.column])
        ]
        rows.append([case, one.kind, one.description, _flows(one), *values])
    return Table(
        f"All scenarios of {name.replace('-', ' ')}", f"validation-{name}", columns, rows, drawable=False
    )
