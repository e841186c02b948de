"""Claims of papers: each has a row with what was measured, or why nothing was."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from ccplane.base.errors import UsageError
from experiments import left_out
from experiments.metrics import NAN
from experiments.papers import claims, model_error, models
from experiments.papers.claims import (
    PAPERS,
    VERDICTS,
    Judged,
    Side,
    count_text,
    counted,
    judge,
    kept,
    of_paper,
    paper_of,
    summary,
    with_own_rules,
)
from experiments.papers.commands import app
from experiments.papers.comparisons import (
    EQUAL,
    LESS,
    MORE,
    NO_LESS,
    NO_MORE,
    Claim,
    Comparison,
    Tuned,
)
from experiments.papers.estimates import computed
from experiments.papers.kept import SIMULATED, Kept
from experiments.papers.literal import in_one_part
from experiments.papers.paper import Paper
from experiments.papers.r_hybrid.claims import AS_MANY
from experiments.papers.tables import Check, Table
from experiments.results import Result
from experiments.statistics import Estimate

FASTER = Comparison("faster", "ratio of goodputs", "goodput_bytes_per_s", {"who": "us"}, {"who": "them"}, 1.0)
CLAIM = Claim("Figure 1", "ours is faster", "race", [FASTER], why="it is not")
BOTH = Claim("s", "t", "race", checks=("faster", "slower"))
READINGS = replace(BOTH, readings=True)


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
            assert claim.part in paper.parts, "runs that cannot be repeated are no evidence"
            assert claim.names or claim.why, claim.says
            assert claim.how or not claim.checks, claim.says
            assert claim.path in model_error.KINDS
            assert set(claim.bars) <= set(claim.checks)
            assert all(one.at_least is not None or one.at_most is not None for one in claim.tests)
    compared = Counter((part.name, one.name) for part in paper.parts.values() for one in part.comparisons)
    assert set(compared.values()) <= {1}, "a name stands once in its part"
    said = Counter(
        (part.name, one.sentence, one.at_least, one.at_most)
        for part in paper.parts.values()
        for one in part.comparisons
    )
    assert [one for one, times in said.items() if times > 1] == [], "a list of them tells them apart"


@pytest.mark.parametrize("name", [*claims.PAPERS, *claims.OTHERS])
def test_every_kept_result_is_of_a_part_that_can_be_run_again(name: str) -> None:
    kept = {file.stem.removesuffix(SIMULATED) for file in (claims.KEPT / name).glob("*.json")}
    assert kept <= paper_of(name).parts.keys()


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


def result(part: str, *checks: Check, **about: Any) -> Kept:
    made = {
        "command": ["ccp", "paper", "p", "--quick"],
        "git": {"commit": "0123456789abcdef", "dirty": False},
        "date": "2100-01-01T00:00:00+00:00",
        "host": {},
        **about,
    }
    return Kept("p", part, 10, 10, {}, (), checks, made)


def judged(claim: Claim, *results: Kept) -> Judged:
    (row,) = judge(Paper.of("published", "P", [], [claim]), {one.part: one for one in results})
    return row


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
        (
            READINGS,
            [check(1, 2), check(0, 0.5, name="slower")],
            "undecided",
            "undecided (its readings disagree)",
        ),
        (READINGS, [check(0, 0.5), check(0, 0.5, name="slower")], "fails", "fails"),
        (Claim("s", "t", why="no"), [], "not tested", "not tested"),
    ],
)
def test_a_claim_holds_if_all_of_it_does(
    claim: Claim, checks: list[Check], verdict: str, reported: str
) -> None:
    row = judged(claim, result("race", *checks))
    assert (row.verdict, row.kernel.reported) == (verdict, reported)
    assert counted([row]) == {one: int(one == verdict) for one in VERDICTS}


def test_real_sockets_decide_an_undecided_claim_too() -> None:
    simulated = result("race-sim", check(2.1, 2.3))
    row = judged(CLAIM, result("race", check(0.9, 1.3, 6)), simulated)
    assert [one.verdict for one in row.sides] == ["undecided", "holds"]
    assert (row.verdict, row.deciding.simulated) == ("undecided", False)
    row = judged(CLAIM, result("race", check(0.8, 0.9)), simulated)
    assert (row.verdict, row.why) == ("fails", "it is not")
    row = judged(CLAIM, simulated)
    assert (row.verdict, row.deciding.simulated) == ("holds", True)
    row = judged(Claim("s", "t", "race", [FASTER], simulable=False), simulated)
    assert row.verdict == "not run"


def test_a_simulated_verdict_exceeds_the_simulators_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_error, "errors", lambda: {("loss", "goodput_bytes_per_s"): 0.1})
    lossy = replace(CLAIM, path="loss")
    assert judged(lossy, result("race-sim", check(1.2, 1.3))).verdict == "holds"
    near = judged(lossy, result("race-sim", check(1.05, 1.08)))
    assert near.simulated.reported == "undecided (model)"
    assert judged(lossy, result("race", check(1.05, 1.08))).verdict == "holds", "on real sockets"
    unknown = judged(replace(CLAIM, path="aqm"), result("race-sim", check(9, 9)))
    assert unknown.simulated.reported == "undecided (model)", "no draw has this quantity there"


def test_the_error_of_a_saved_share_is_that_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        model_error, "errors", lambda: {("limiter", "retrans_pkts"): 0.5, ("limiter", "jain_index"): 0.1}
    )
    saved = model_error.widened(Estimate(0.8, 0.8, 0.8, 10), "saved retrans_pct", "limiter")
    assert saved is not None
    assert (saved.low, saved.high) == pytest.approx((0.7, 1 - 0.2 / 1.5))
    fair = model_error.widened(Estimate(0.9, 0.9, 0.9, 10), "jain_index", "limiter")
    assert fair is not None
    assert (fair.low, fair.high) == pytest.approx((0.8, 1.0))


def test_errors_are_those_of_all_kept_draws() -> None:
    found = model_error.errors()
    assert {path for path, _ in found} == set(model_error.PATHS)
    assert set(model_error.OF_COLUMN.values()) <= {column for _, column in found}
    assert all(error > 0 for error in found.values())


def test_a_few_scenarios_have_no_90th_percentile_of_their_own(tmp_path: Path) -> None:
    draw = json.loads((model_error.DRAWS / "draw-1.json").read_text())
    (tmp_path / "draw-1.json").write_text(json.dumps(draw))
    found = model_error.errors(tmp_path)
    kinds = Counter(one["kind"] for one in draw["cases"] if one["rate_mbit"] <= 100)
    few = [kind for kind, count in kinds.items() if count < model_error.MIN_CASES]
    assert len(few) > 1
    assert len({found[kind, model_error.GOODPUT] for kind in few}) == 1


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({"git": None}, "of an unknown revision"),
        ({"git": {"commit": "0", "dirty": True}}, "of a tree with changes"),
        ({"date": "2026-11-01T00:00:00+00:00"}, "older than a change of simulator: the send buffer of Linux"),
    ],
)
def test_a_result_that_cannot_be_made_again_gives_no_verdict(about: dict[str, Any], why: str) -> None:
    row = judged(CLAIM, result("race-sim", check(2, 3), **about))
    assert (row.verdict, row.simulated.reported) == ("stale", f"stale ({why})")
    assert row.why == "it is not; `ccp paper p --quick --keep docs/results/papers`", (
        "the command that made it"
    )


def test_an_algorithm_that_changed_makes_its_results_stale_and_no_others() -> None:
    at = "2026-11-27T00:00:00+00:00"
    changes = [
        models.Change("mine", at, "a bound", frozenset({"race"})),
        models.Change("rival", at, "a clock", checks="rival"),
        models.Change("mine", at, "a start", frozenset({"walk"}), papers=frozenset({"q"})),
    ]

    def stale(part: str, date: str, check: str = "") -> str:
        about = {"git": {"commit": "0", "dirty": False}, "date": date}
        used = {"p": ("mine", "rival")}
        return models.stale("p", part, about, [check], simulated=False, changes=changes, used=used)

    assert stale("race", "2026-11-26T23:59:59+00:00") == "older than a change of mine: a bound"
    assert stale("race-literal", "2026-11-26T23:59:59+00:00") == "older than a change of mine: a bound"
    assert stale("race", "2026-11-27T00:00:00+00:00") == ""
    assert stale("walk", "2026-11-26T00:00:00+00:00") == ""
    assert (
        stale("walk", "2026-11-26T00:00:00+00:00", "beats rival") == "older than a change of rival: a clock"
    )


def test_nothing_is_judged_on_runs_that_chose_its_parameters() -> None:
    tuned = replace(CLAIM, tuned=Tuned("`factor` was chosen on seeds 3 and 4", frozenset({3, 4})))
    for about, verdict in (({"seeds": [4, 5]}, "tuned"), ({}, "tuned"), ({"seeds": [5, 6]}, "holds")):
        assert judged(tuned, result("race", check(2, 3), **about)).verdict == verdict
    everywhere = replace(CLAIM, tuned=Tuned("`factor` was chosen on this path"))
    row = judged(everywhere, result("race", check(2, 3), seeds=[100]))
    assert row.kernel.reported == "tuned (`factor` was chosen on this path)"


def test_the_papers_rule_and_another_one_are_two_rows() -> None:
    literal = replace(FASTER, name="literal")
    rows = in_one_part(CLAIM, "a rule of ccplane's", "why it differs", [literal])
    paper = Paper.of("p", "P", [], rows)
    kept_result = result("race", check(0.5, 0.6, name="literal"), check(2, 3))
    found = judge(paper, {"race": kept_result})
    assert [(row.claim.rule, row.verdict) for row in found] == [
        ("", "fails"),
        ("a rule of ccplane's", "holds"),
    ]
    assert of_paper(found) == found[:1]
    assert with_own_rules(found) == found[1:]
    (without, _) = judge(paper, {"race": result("race", check(2, 3))})
    assert without.verdict == "not run", "never judged by runs of another rule"
    assert summary(found).endswith("With ccplane's rules: 1 claim. Real sockets: 1 holds")


def test_bounds_are_those_of_the_claim_not_those_of_the_day_of_the_run() -> None:
    assert (
        judged(replace(CLAIM, tests=[replace(FASTER, at_least=3.0)]), result("race", check(1, 2))).verdict
        == "fails"
    )
    parts_own = Claim("s", "t", "race", checks=["faster"], bars={"faster": (None, 0.5)})
    assert judged(parts_own, result("race", check(1, 2))).verdict == "fails"


def test_a_newer_comparison_is_made_from_kept_tables() -> None:
    table = Table.of(runs([2.0] * 6, [1.0] * 5 + [1.1]), "t", ["who"], ["goodput_bytes_per_s"])
    found = FASTER.of_tables([table])
    assert found is not None
    assert (found.found.value, found.found.low, found.found.high, found.found.n) == (2, 2 / 1.1, 2, 6)
    assert replace(FASTER, column="rtt_us").of_tables([table]) is None
    assert replace(FASTER, of={"who": "nobody"}).of_tables([table]) is None


def test_another_part_with_the_same_runs_counts_if_it_has_more_of_them() -> None:
    both = replace(CLAIM, also="relay")
    few, many = result("race", check(0.5, 0.6, 6)), result("relay", check(2, 3, 10))
    assert judged(both, few, many).verdict == "holds"
    assert judged(both, few, result("relay", check(2, 3, 5))).verdict == "fails"
    assert judged(CLAIM, few, many).verdict == "fails"
    dirty = result("relay", check(2, 3, 10), git={"commit": "0", "dirty": True})
    assert judged(both, few, dirty).verdict == "fails", "more runs, but they do not count any more"
    assert judged(both, dirty).verdict == "stale"


def test_what_was_not_run_says_how_to_run_it() -> None:
    paper = paper_of("r-tcp")
    rows = {row.claim.part: row for row in judge(paper, {}) if row.claim.part}
    assert rows["video"].why.endswith(
        "`sudo ccp paper r-tcp --video --part video --keep docs/results/papers`"
    )
    assert "--video" not in rows["grid"].why


def test_both_sides_are_counted_apart() -> None:
    def row(real: Check | None, simulated: Check | None) -> Judged:
        sides = (() if one is None else (one,) for one in (real, simulated))
        return Judged("p", Side(CLAIM, next(sides)), Side(CLAIM, next(sides), simulated=True))

    rows = [
        row(check(2, 2), None),
        row(check(0.9, 1.3), check(0.5, 0.6)),
        row(None, check(0.1, 0.1)),
        row(None, None),
        row(Check("it", computed(2.0), 1.0, None, "faster"), None),
    ]
    assert count_text(rows) == (
        "5 claims. Real sockets: 1 holds, 1 undecided. Simulator: 2 fail. Computed: 1 holds. "
        "No verdict: 1 not run"
    )
    assert rows[0].cells()[3:] == ["holds: 2.000 (10, all alike)", "", "holds", ""]
    assert rows[4].cells()[3:] == ["holds: 2.000 (computed)", "", "holds", ""]


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
    own = [one for one in printed["claims"] if one["rule"]]
    for name, n in (("paper", len(printed["claims"]) - len(own)), ("own", len(own))):
        assert {sum(counts.values()) for counts in printed["counts"][name].values()} == {n}
    tables = CliRunner().invoke(app, ["claims"]).stdout
    assert f"{len(printed['claims']) - len(own)} claims. Real sockets: " in tables


def test_claims_of_one_paper_are_judged_by_a_folder(tmp_path: Path) -> None:
    few = ["hyvar", "--datapath", "sim", "--quick", "--repeats", "1", "-t", "1s", "--part", "mtp"]
    done = CliRunner().invoke(app, [*few, "-o", str(tmp_path / "out"), "--keep", str(tmp_path / "kept")])
    assert done.exit_code == 0, done.output
    printed = json.loads(
        CliRunner().invoke(app, ["claims", "hyvar", "--results", str(tmp_path / "kept"), "--json"]).stdout
    )
    measured = [one for one in printed["claims"] if one["simulator"]["checks"]]
    assert measured
    assert not any(one["kernel"]["checks"] for one in printed["claims"])
    assert {one["verdict"] for one in measured} <= {"undecided", "stale"}
    assert kept("hyvar", tmp_path) == {}


def test_an_unknown_paper_is_refused() -> None:
    found = CliRunner().invoke(app, ["claims", "hyver"]).exception
    assert isinstance(found, UsageError)
    assert found.slug == "paper.unknown"
    assert "hyvar" in found.fix


@pytest.mark.parametrize("name", [*PAPERS])
def test_ratios_next_to_one_have_the_same_margin_everywhere(name: str) -> None:
    allowed = {*EQUAL, *NO_LESS, *NO_MORE, *MORE, *LESS, *AS_MANY}  # the last is a ratio that the paper names
    for claim in paper_of(name).claims:
        bounds = [(one.at_least, one.at_most) for one in claim.tests if one.by is not None]
        near = [one for pair in bounds for one in pair if one is not None and 0.97 < one < 1.1]
        assert set(near) <= allowed, claim.says
