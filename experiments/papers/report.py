"""The report of a paper: its claims, by real sockets and by simulation, and the results of its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from experiments.papers import claims
from experiments.papers.claims import NOT_RUN, SIDES, STALE, Judged, Side
from experiments.papers.comparisons import Comparison
from experiments.papers.kept import SIMULATED, Kept, reported_left_out
from experiments.papers.paper import Findings, Paper
from experiments.papers.tables import INTERVALS, Check
from experiments.papers.tables import Table as Estimates
from experiments.plots import as_svg, quantity
from experiments.report import Column, Evidence, Measured, Picture, Report, Row, Section, Source, Table
from experiments.report.html import slug
from experiments.report.model import Cell

_ABOUT: Final = (
    "Every claim of the paper, paraphrased, and judged by ccplane's runs on real sockets and in the "
    "simulator. The verdict on a claim is that of real sockets wherever there are such runs. A simulated "
    "verdict has to exceed the simulator's own error. "
)
_OWN: Final = (
    "The same claims with rules of ccplane's instead of the paper's. The bar at the top does not count them."
)
_SEEDS: Final = "not recorded with these results; the same command uses the same seeds"


def pictures_of(found: Findings) -> list[Picture]:
    """Return the figures of a part's findings."""
    return [Picture(name.replace("-", " "), as_svg(figure)) for name, figure in found.figures.items()]


def report_of(
    paper: Paper,
    kept: Mapping[str, Kept],
    pictures: Mapping[str, Sequence[Picture]] | None = None,
    overview: Sequence[Picture] = (),
) -> Report:
    """Return the report of a paper.

    Args:
        paper: The paper.
        kept: Results of its parts, as `read` returns them.
        pictures: Figures of parts, by the names of `kept`.
        overview: Figures of the whole paper.
    """
    evidence = {name: _evidence(one, (pictures or {}).get(name, ())) for name, one in kept.items()}
    figures = [Section("Figures", pictures=overview)] if overview else []
    judged = claims.judge(paper, kept)
    own = _claims(claims.with_own_rules(judged), evidence)
    sections = [
        Section("Claims", _claims(claims.of_paper(judged), evidence), SIDES),
        *([Section("Claims with ccplane's rules", own, SIDES, _OWN, counted=False)] if own else []),
        *figures,
        Section(
            "Experiments",
            _parts(paper, evidence),
            SIDES,
            "All results of each part of the experiments, including those that no claim rests on.",
            "part",
            counted=False,
        ),
    ]
    return Report(paper.title, sections, f"{_ABOUT}{claims.summary(judged)}.")


# --- claims ------------------------------------------------------------------------------------------------


def _claims(rows: Sequence[Judged], evidence: Mapping[str, Evidence]) -> list[Row]:
    numbers = Counter[str]()
    found = []
    for judged in rows:
        claim, verdict = judged.claim, judged.verdict
        place = slug(f"{claim.source}{' own' if claim.rule else ''}")
        numbers[place] += 1
        names = (str(claim.part), f"{claim.part}{SIMULATED}")
        sides = zip(judged.sides, names, strict=True)
        said = [claim.tested.replace("`", ""), f"paper: {claim.number}" if claim.number else "", claim.rule]
        runnable = claim.names and verdict in {NOT_RUN, STALE}
        found.append(
            Row(
                key=f"{place}-{numbers[place]}",
                title=claim.says,
                verdict=verdict,
                sides=[_side(one, evidence.get(name)) for one, name in sides],
                source=claim.source,
                about="; ".join(one for one in said if one),
                why="" if verdict == "holds" else claim.why,
                note=judged.deciding.note,
                command=judged.command if runnable else "",
            )
        )
    return found


def _side(side: Side, evidence: Evidence | None) -> Evidence | None:
    """Return the checks of a claim on one side, with the results of their part."""
    if evidence is None or not side.checks:
        return None
    claim = side.claim
    return replace(
        evidence,
        measured=[_measured(one) for one in side.checks],
        verdict=side.verdict,
        summary="",
        marked=[conditions for test in claim.tests for conditions in _conditions(test)],
        value=claim.tests[0].column if claim.tests else "",
    )


def _measured(check: Check) -> Measured:
    return Measured(check.claim.rstrip(","), check.found, check.low, check.high)


def _conditions(test: Comparison) -> list[Mapping[str, Any]]:
    return [one for one in (test.of, test.by) if one]


# --- parts -------------------------------------------------------------------------------------------------


def _parts(paper: Paper, evidence: Mapping[str, Evidence]) -> list[Row]:
    rows = []
    for name, part in paper.parts.items():
        sides = [evidence.get(name), evidence.get(f"{name}{SIMULATED}")]
        if any(sides):
            rows.append(Row(f"part-{slug(name)}", part.about, None, sides, source=name))
    return rows


def _evidence(kept: Kept, pictures: Sequence[Picture]) -> Evidence:
    """Return the results of a part; checks of claims are in the claims' rows."""
    tables = [_table(f"{kept.paper}-{kept.part}-{number}", one) for number, one in enumerate(kept.tables, 1)]
    count = sum(len(one.rows) for one in tables)
    runs = f"{kept.done} of {kept.planned} runs" if kept.planned else "computed"
    source = Source.of(
        kept.about,
        runs=f"{runs}{reported_left_out(kept.left_out)}",
        seeds=_seeds(kept),
        **({"kernel": "none: simulated"} if kept.part.endswith(SIMULATED) else {}),
    )
    measured = [_measured(one) for one in kept.checks if one.known]
    figures = f", {len(measured)} figures with bounds" if len(measured) > 1 else ""
    summary = f"{runs}, {count} row{'s' if count != 1 else ''}{figures}"
    return Evidence(measured, None, summary, source, tables, pictures=pictures)


def _seeds(kept: Kept) -> str:
    seeds: Sequence[int] = kept.about.get("seeds") or ()
    if not seeds:
        return "" if not kept.planned else _SEEDS
    in_a_row = list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if in_a_row and len(seeds) > 2 else ", ".join(map(str, seeds))


def _table(file: str, found: Estimates) -> Table:
    """Return a table of estimates, without columns of which nothing is known."""
    known = [name for name in (*found.by, *found.values) if found.rows[name].notna().any()]
    columns = []
    for name in known:
        what, is_value = quantity(name), name in found.values
        repeated = is_value and bool(found.rows[f"{name}.low"].notna().any())
        columns.append(Column(name, what.name, what.unit, what.scale, is_value, repeated))
    columns.append(Column("n", "runs", is_value=False))
    names = [name for column in columns for name in column.names]
    rows = [[_cell(one) for one in row] for row in found.rows[names].itertuples(index=False)]
    return Table(found.title, file, columns, rows, f"{INTERVALS}." if found.repeated else "")


def _cell(value: Any) -> Cell:
    """Return a cell as a Python value."""
    if isinstance(value, str) or value is None:
        return value
    plain = value.item() if hasattr(value, "item") else value
    return None if pd.isna(plain) else plain
