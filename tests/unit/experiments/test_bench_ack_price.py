from __future__ import annotations

import pytest

from experiments.bench.ack_price import price_of
from experiments.bench.bpf_objects import Runs
from experiments.bench.errors import BenchError

BEFORE = {"ccp_init": Runs(1, 1e-6), "ccp_cong_contro": Runs(500, 1e-4)}


def test_the_time_of_all_hooks_is_shared_out_to_the_acks() -> None:
    after = {
        "ccp_init": Runs(2, 5e-6),
        "ccp_cong_contro": Runs(1500, 3e-4),
        "ccp_release": Runs(1, 1e-6),  # loaded since
        "ccp_undo_cwnd": Runs(0, 0.0),
    }
    price = price_of(BEFORE, after, "ccp.cubic")
    assert price.acks == 1000
    assert price.hook_ns == pytest.approx({"ccp_init": 4, "ccp_cong_contro": 200, "ccp_release": 1})
    assert price.ack_ns == pytest.approx(205)


def test_no_run_is_an_error_and_no_zero() -> None:
    with pytest.raises(BenchError) as caught:
        price_of(BEFORE, BEFORE, "ccp.cubic")
    assert caught.value.slug == "bench.no_program_ran"
    assert "`ccp.cubic`" in caught.value.where
