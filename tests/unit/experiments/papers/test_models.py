"""Simulator and algorithms behave as they did when `models.CHANGES` was last brought up to date."""

from __future__ import annotations

import hashlib
import json
import platform

import pytest

from experiments.metrics import NAN
from experiments.netlab.spec import Bernoulli, Buffer, Direction, DropTail, TokenBucket
from experiments.papers import claims, models
from experiments.papers.int_adaptive.paper import PAPER as INT_ADAPTIVE
from experiments.papers.paper import Size, grids_of
from experiments.run import run
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, ReceiverAgent, Scenario
from experiments.sweep import planned

PATH = Direction(
    rate_bytes_per_s=2.5e6,
    delay_us=10_000,
    buffer=Buffer(bdp=1.0),
    queue=DropTail(ce_threshold_us=15_000),
    loss=Bernoulli(0.005),
)
LIMITED = Direction(
    rate_bytes_per_s=2.5e6, delay_us=10_000, buffer=Buffer(bdp=1.0), token_bucket=TokenBucket(1e6, 250_000)
)


def scenario_of(algorithm: str) -> Scenario:
    """Return a run with what the algorithm reacts to: losses, marks, a queue, telemetry, a limit."""
    if algorithm == "int_cubic":
        size = Size(quick=True, repeats=1, duration_s=3.0, datapath="sim")
        runs = [one for grid in grids_of(INT_ADAPTIVE.parts["fig6"], size) for one in planned(grid)]
        return next(one.scenario for one in runs if one.axes == {"loss": "2 %", "variant": "CUBIC New L2"})
    flow = FlowSpec("flow", "s1", "r1", algorithm, ecn=algorithm in {"kernel/cubic", "r_hybrid", "dctcp"})
    back = Direction(delay_us=10_000)
    path = LIMITED if algorithm.startswith("rtcp/") else PATH
    return Scenario(
        name="digest",
        topology=Dumbbell(1, path, back),
        flows=(flow,),
        duration_s=3.0,
        datapath="sim",
        receivers=(ReceiverAgent("r1", mode="fast"),) if algorithm == "r_hybrid" else (),
    )


def digest(algorithm: str) -> str:
    """Return what flows of `scenario_of` do, as eight digits."""
    found = run(scenario_of(algorithm)).flow_samples[["t_s", "bytes_acked", "bytes_retrans", "srtt_us"]]
    text = json.dumps(found.fillna(NAN).round(6).to_numpy(dtype=float).tolist())
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="floating-point numbers differ between processors")
@pytest.mark.parametrize("algorithm", models.DIGESTS)
def test_behaviour_is_that_of_the_newest_listed_change(algorithm: str) -> None:
    assert digest(algorithm) == models.DIGESTS[algorithm], (
        f"{algorithm} behaves differently: add a Change and this digest to experiments/papers/models.py, "
        "and repeat the parts that `ccp paper claims` calls stale"
    )


def test_changes_are_those_of_used_models_and_of_parts_with_results() -> None:
    parts = {file.stem for file in claims.KEPT.glob("*/*.json")}
    parts |= {part.removesuffix("-sim") for part in parts}
    for change in models.CHANGES:
        assert change.model in {models.SIMULATOR, *(name for used in models.USED.values() for name in used)}
        assert change.parts <= parts
        assert change.papers <= {*claims.PAPERS, *claims.OTHERS}
    assert set(models.USED) == set(claims.PAPERS)
    assert {name for used in models.USED.values() for name in used} <= {*models.DIGESTS, "r_tcp"}, (
        "R-TCP is digested as rtcp/cubic"
    )
