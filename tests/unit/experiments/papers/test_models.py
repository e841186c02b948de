"""Simulator and algorithms behave as they did when `models.CHANGES` was last brought up to date."""

from __future__ import annotations

import hashlib
import json
import platform

import pytest

from experiments.metrics import NAN
from experiments.netlab.spec import Bernoulli, Buffer, Direction, DropTail
from experiments.papers import claims, models
from experiments.run import run
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, Scenario

PATH = Direction(
    rate_bytes_per_s=2.5e6,
    delay_us=10_000,
    buffer=Buffer(bdp=1.0),
    queue=DropTail(ce_threshold_us=15_000),
    loss=Bernoulli(0.005),
)


def digest(algorithm: str) -> str:
    """Return what a flow of the algorithm does over a path with loss, marks and a queue, as eight digits."""
    flow = FlowSpec("flow", "s1", "r1", algorithm, ecn=algorithm in {"kernel/cubic", "r_hybrid"})
    back = Direction(delay_us=10_000)
    scenario = Scenario(
        name="digest", topology=Dumbbell(1, PATH, back), flows=(flow,), duration_s=3.0, datapath="sim"
    )
    found = run(scenario).flow_samples[["t_s", "bytes_acked", "bytes_retrans", "srtt_us"]].fillna(NAN)
    text = json.dumps(found.round(6).to_numpy(dtype=float).tolist())
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
