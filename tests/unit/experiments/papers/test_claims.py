"""Claims of papers: each has a row with what was measured, or why nothing was."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from ccplane.base.errors import UsageError
from experiments import left_out
from experiments.metrics import NAN
from experiments.papers.claims import PAPERS, VERDICTS, Judged, count_text, counted, judge, kept, paper_of
from experiments.papers.commands import app
from experiments.papers.comparisons import Claim, Comparison
from experiments.papers.estimates import computed
from experiments.papers.paper import Paper, Part, nothing_to_run
from experiments.papers.tables import Check
from experiments.results import Result
from experiments.statistics import Estimate

FASTER = Comparison("faster", "ratio of goodputs", "goodput_bytes_per_s", {"who": "us"}, {"who": "them"}, 1.0)
CLAIM = Claim("Figure 1", "ours is faster", "race", [FASTER], why="it is not")
BOTH = Claim("s", "t", "race", checks=("faster", "slower"))


def runs(own: list[float], other: list[float]) -> pd.DataFrame:
    sides = {"us": own, "them": other}
    return pd.DataFrame(
        [
            {"who": who, "seed": seed, "goodput_bytes_per_s": value}
            for who, values in sides.items()
            for seed, value in enumerate(values)
        ]
    )


@pytest.mark.parametrize("name", PAPERS)
def test_every_claim_says_how_it_is_tested_or_why_not(name: str) -> None:
    paper = paper_of(name)
    assert paper.name == name
    assert paper.claims
    for claim in paper.claims:
        assert claim.source
        assert claim.says
        if claim.part is None:
            assert claim.why, claim.says
            assert not claim.names
        else:
            assert claim.part in paper.parts
            assert claim.names
            assert claim.how or not claim.checks, claim.says
            assert all(one.at_least is not None or one.at_most is not None for one in claim.tests)
    compared = Counter((part.name, one.name) for part in paper.parts.values() for one in part.comparisons)
    assert set(compared.values()) <= {1}, "a name stands once in its part"
    said = Counter(
        (part.name, one.sentence, one.at_least, one.at_most)
        for part in paper.parts.values()
        for one in part.comparisons
    )
    assert [one for one, times in said.items() if times > 1] == [], "a list of them tells them apart"


def test_a_comparison_is_of_runs_with_the_same_seed() -> None:
    check = FASTER.check(runs([2, 4, 6, 8, 10, 12], [1, 2, 3, 4, 5, 6]))
    assert (check.found.value, check.found.low, check.found.high, check.found.n) == (2, 2, 2, 6)
    assert check.verdict == "holds"
    assert check.alike
    assert check.statement == "ratio of goodputs is at least 1"


def test_what_a_run_compares_inside_is_one_value() -> None:
    table = runs([2, 4], [1, 1]).assign(seed=1, operator=["a", "b", "a", "b"])
    found = FASTER.check(table).found
    assert (found.value, found.n) == (3, 1)


def test_nothing_is_divided_by_zero_and_a_missing_column_is_not_measured() -> None:
    assert FASTER.check(runs([1.0] * 7, [0.0] + [1.0] * 6)).found.n == 6
    assert FASTER.check(pd.DataFrame({"seed": [1]})).verdict is None
    alone = Comparison("alone", "goodput", "goodput_bytes_per_s", {"who": "us"}, None, 1.5)
    assert alone.check(runs([1, 2, 2, 2, 2, 3, 3, 3, 3, 3], [])).verdict == "holds"


def check(low: float, high: float, n: int = 10, name: str = "faster") -> Check:
    return Check("it", Estimate((low + high) / 2, low, high, n), 1.0, None, name)


@pytest.mark.parametrize(
    ("claim", "checks", "verdict", "reported"),
    [
        (CLAIM, [check(1.1, 1.3)], "holds", "holds"),
        (CLAIM, [check(0.8, 0.9)], "fails", "fails"),
        (CLAIM, [check(0.9, 1.3)], "undecided", "undecided (try 40 runs)"),
        (CLAIM, [check(NAN, NAN, 3)], "not run", "not run"),
        (CLAIM, [], "not run", "not run"),
        (BOTH, [check(1, 2)], "undecided", "undecided (1 of 2 not measured)"),
        (BOTH, [check(1, 2), check(0, 0.5, name="slower")], "fails", "fails"),
        (Claim("s", "t", why="no"), [], "not tested", "not tested"),
    ],
)
def test_a_claim_holds_if_all_of_it_does(
    claim: Claim, checks: list[Check], verdict: str, reported: str
) -> None:
    paper = Paper.of("p", "P", [Part("race", "a race", nothing_to_run, lambda _runs: None)], [claim])  # type: ignore[arg-type, return-value]
    (row,) = judge(paper, {"race": checks})
    assert (row.verdict, row.reported) == (verdict, reported)
    assert counted([row]) == {one: int(one == verdict) for one in VERDICTS}


def test_simulated_runs_decide_where_real_sockets_do_not() -> None:
    paper = Paper.of("p", "P", [], [CLAIM])
    both: dict[str, list[Check]] = {"race": [check(0.9, 1.3, 6)], "race-sim": [check(1.1, 1.3)]}
    (row,) = judge(paper, both)
    assert (row.verdict, row.n) == ("holds", "10, simulated")
    both["race"] = [check(0.8, 0.9)]
    (row,) = judge(paper, both)
    assert (row.verdict, row.n, row.why) == ("fails", "10", "it is not")
    real = Claim("s", "t", "race", [FASTER], simulable=False)
    (row,) = judge(Paper.of("p", "P", [], [real]), {"race-sim": [check(1.1, 1.3)]})
    assert row.verdict == "not run"


def test_what_was_not_run_says_how_to_run_it() -> None:
    paper = paper_of("r-tcp")
    rows = {row.claim.part: row for row in judge(paper, {}) if row.claim.part}
    assert rows["video"].why == "`sudo ccp paper r-tcp --video --part video --keep docs/results/papers`"
    assert "--video" not in rows["grid"].why


def test_a_table_counts_verdicts_and_runs_that_are_all_alike() -> None:
    rows = [Judged("p", CLAIM, [check(2, 2)]), Judged("p", CLAIM, [check(0.5, 0.6)])]
    rows.append(Judged("p", CLAIM, [Check("it", computed(2.0), 1.0, None, "faster")]))
    assert count_text(rows) == "3 claims: 2 hold, 1 fails; 1 verdict rests on runs that are all alike"
    assert [row.cells()[2:] for row in rows] == [
        ["2.000", "10, all alike", "holds", ""],
        [rows[1].value, "10", "fails", "it is not"],
        ["2.000", "computed", "holds", ""],
    ]


def test_runs_that_the_machine_disturbed_are_left_out_whatever_they_measured() -> None:
    def why(**facts: Any) -> str | None:
        return left_out.why(Result(None, facts, {}.__getitem__, ""))

    def late(max_us: float) -> dict[str, Any]:
        return {"emulator": {"lateness_us": {"max": max_us}}}

    assert why() is None
    assert why(**late(left_out.LATE_US)) is None
    assert why(**late(left_out.LATE_US + 1)) == "the emulator was late"
    assert why(processors={"stolen_ratio": 0.2, "foreign_ratio": 0.1, "own_ratio": 0.7}) is None
    assert why(processors={"stolen_ratio": 0.2, "foreign_ratio": 0.21}) == "other work used the processors"


def test_all_claims_of_all_papers_are_printed() -> None:
    printed = json.loads(CliRunner().invoke(app, ["claims", "--json"]).stdout)
    assert {one["paper"] for one in printed["claims"]} == set(PAPERS)
    assert sum(printed["counts"].values()) == len(printed["claims"])
    tables = CliRunner().invoke(app, ["claims"]).stdout
    assert f"{len(printed['claims'])} claims: " in tables


def test_claims_of_one_paper_are_judged_by_a_folder(tmp_path: Path) -> None:
    few = ["hyvar", "--datapath", "sim", "--quick", "--repeats", "1", "-t", "1s", "--part", "mtp"]
    done = CliRunner().invoke(app, [*few, "-o", str(tmp_path / "out"), "--keep", str(tmp_path / "kept")])
    assert done.exit_code == 0, done.output
    printed = json.loads(
        CliRunner().invoke(app, ["claims", "hyvar", "--results", str(tmp_path / "kept"), "--json"]).stdout
    )
    measured = [one for one in printed["claims"] if one["checks"]]
    assert measured
    assert {one["where"] for one in measured} == {"simulated"}
    assert {one["verdict"] for one in measured} <= {"undecided", "not run"}
    assert kept("hyvar", tmp_path) == {}


def test_an_unknown_paper_is_refused() -> None:
    found = CliRunner().invoke(app, ["claims", "hyver"]).exception
    assert isinstance(found, UsageError)
    assert found.slug == "paper.unknown"
    assert "hyvar" in found.fix
