"""R-TCP's detector with limiters in steps, jitter, a second flow and radio links: plans and bounds."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pytest

from experiments.papers.estimates import IN_RUN
from experiments.papers.paper import Runs, Size, findings
from experiments.papers.r_tcp import harder
from experiments.results import Result
from experiments.run import run
from experiments.scenario import FlowSpec


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Transfers with tokens in steps, with a second flow, and without a limiter."""
    scenario = harder.transfers(("refill100", "second", "freesteady"), range(1), 8)
    return run(scenario.replace(datapath="sim"), tmp_path_factory.mktemp("harder") / "run")


def test_every_condition_has_enough_networks_for_its_bound() -> None:
    planned: Counter[str] = Counter()
    paths: set[str] = set()
    for number in range(2):
        for name, kinds in harder.KINDS.items():
            at_once = harder.AT_ONCE[name]
            scenario = harder.transfers(kinds, range(at_once * number, at_once * (number + 1)), 5)
            own = [flow for flow in scenario.flows if not flow.name.startswith(harder.OTHER)]
            planned.update(harder.CONDITIONS[flow.name.partition("-")[0]].label for flow in own)
            paths.update(flow.name for flow in own)
    assert set(planned) == {one.label for one in harder.CONDITIONS.values()}
    assert len(paths) == sum(planned.values()), "no network is used twice"
    for condition in harder.CONDITIONS.values():
        n = planned[condition.label] // 2 * harder.RUNS
        rows = pd.DataFrame({"condition": condition.label, "wrong_ratio": [0.0] * n, IN_RUN: 0})
        first = next(
            check
            for check in harder.checks(rows.assign(rate_error_ratio=0.0))
            if check.name.endswith(f", {condition.label}")
        )
        assert first.verdict == "holds", "no wrong verdict is enough for the bound"
        rows.loc[: n // 20, "wrong_ratio"] = 1.0
        worse = next(
            one for one in harder.checks(rows.assign(rate_error_ratio=0.0)) if one.name == first.name
        )
        assert worse.verdict != "holds", "one wrong verdict in twenty is too many"


def test_the_network_is_that_of_the_condition() -> None:
    scenario = harder.transfers(("before20", "after5", "refill50", "radio", "freesecond"), range(1), 5)
    links = {one.name: one for one in scenario.network.links}
    first: dict[str, FlowSpec] = {}
    for flow in scenario.flows:
        first.setdefault(flow.name.partition("-")[0], flow)
    path = {kind: links[f"path{flow.sender[1:]}"].forward for kind, flow in first.items()}
    assert links[f"before{first['before20'].sender[1:]}"].forward.jitter_us == 20_000
    assert path["before20"].jitter_us == 0
    assert path["after5"].jitter_us == 5_000
    bucket = path["refill50"].token_bucket
    assert bucket is not None
    assert bucket.refill_us == 50_000
    assert path["radio"].trace is not None
    assert path["radio"].token_bucket is not None
    assert path["freesecond"].token_bucket is None
    others = [flow for flow in scenario.flows if flow.name.startswith(harder.OTHER)]
    assert {flow.receiver for flow in others} == {
        flow.receiver for flow in scenario.flows if flow.name.startswith("freesecond")
    }, "a second flow has the receiver, and so the link, of a transfer"


def test_the_detector_judges_every_transfer(played: Result) -> None:
    own = harder.verdicts(played)
    assert len(own) == 18
    steps = own[own["condition"] == "tokens every 100 ms"]
    assert (steps["wrong_ratio"] == 0).sum() >= 5
    assert steps["rate_error_ratio"].median() < 0.05
    assert steps["limited_s"].dropna().between(0, 8).all()
    free = own[own["operator"] == harder.FREE]
    assert free["rate_error_ratio"].isna().all()
    assert free["wrong_ratio"].tolist() == [float(at_s == at_s) for at_s in free["limited_s"]]


def test_conditions_that_were_not_run_are_not_measured(played: Result) -> None:
    found = findings(harder.HARDER, Runs([played], pd.DataFrame(), 1))
    known = {check.name for check in found.checks if check.known}
    assert {"missed, tokens every 100 ms", "missed, second flow", "false, no limit, radio at rest"} <= known
    assert "missed, radio" not in known
    assert [len(table.rows) for table in found.tables] == [6]


def test_claims_use_checks_of_the_part_and_are_marked_as_ccplanes() -> None:
    names = {one.name for one in harder.checks(_no_rows())}
    used = [name for claim in harder.CLAIMS for name in claim.checks]
    assert len(used) == len(set(used))
    assert set(used) <= names
    assert names - set(used) == {"missed, exact token bucket", "rate error, exact token bucket"}
    assert all(claim.rule for claim in harder.CLAIMS)
    assert len(harder.HARDER.grids(Size(quick=True, repeats=1))) == len(harder.KINDS)


def _no_rows() -> pd.DataFrame:
    return pd.DataFrame(columns=["condition", "wrong_ratio", "rate_error_ratio", IN_RUN])


def test_each_network_has_its_own_radio_link() -> None:
    scenario = harder.transfers(("freemoving",), range(2), 5)
    traces = [one.forward.trace for one in scenario.network.links if one.forward.trace]
    assert len(set(traces)) == len(traces) == 12
    again = harder.transfers(("freemoving",), range(2), 5)
    assert again == scenario
