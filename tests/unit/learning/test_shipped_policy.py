from __future__ import annotations

import pytest

from ccp_algs.hyvar.policy import SHIPPED, load_policy
from experiments.learning.domain import single_path
from experiments.learning.evaluation import Contender, evaluate
from experiments.units import MBIT


def contenders() -> dict[str, Contender]:
    act = load_policy(SHIPPED).actions
    return {"hybrid": Contender(act), "alone": Contender(act, heuristic=None), "cubic": Contender()}


@pytest.mark.parametrize("mtp_ms", [10, 50, 200])
def test_it_fills_the_path_of_the_slides_without_the_queue_of_cubic(mtp_ms: int) -> None:
    path = single_path(rate_bytes_per_s=48 * MBIT, rtt_us=30e3, mtp_us=mtp_ms * 1e3)
    found = evaluate(contenders(), path, n_paths=1).set_index("contender")
    assert found.loc["hybrid", "utilisation"] > 0.97
    assert found.loc["hybrid", "queueing_us"] < 6e3 < 15e3 < found.loc["cubic", "queueing_us"]
    assert found.loc["alone", "queueing_us"] < 6e3
    if mtp_ms < 200:
        assert found.loc["alone", "utilisation"] > 0.97


def test_it_keeps_throughput_and_shortens_the_queue_on_max_random_paths() -> None:
    found = evaluate(contenders(), n_paths=32)
    throughput = found.pivot(index="path", columns="contender", values="utilisation")
    queueing = found.pivot(index="path", columns="contender", values="queueing_us")
    assert (throughput["hybrid"] / throughput["cubic"] > 0.97).mean() > 0.7
    assert (queueing["hybrid"] / queueing["cubic"]).median() < 0.9
    assert (
        (throughput["hybrid"] < throughput["cubic"]) & (queueing["hybrid"] > queueing["cubic"])
    ).mean() < 0.15
