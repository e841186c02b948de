"""The hello world, alone and vectorised."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs import example_aimd
from ccp_algs.example_aimd import Aimd, AimdFold
from ccp_algs.simulated_flow import FakeInfo, FakeReport, RecordingFlow
from ccp_algs.vector_aimd import VectorAimd, VectorAimdFold
from tests.unit.ccp_algs.folded import MSS, Folded


def make() -> Aimd:
    algorithm = Aimd()
    algorithm.flow = RecordingFlow(FakeInfo(), {"default": AimdFold.source})
    algorithm.on_create(FakeInfo())
    return algorithm


def report(**values: Any) -> FakeReport:
    fields = {"acked": 0, "lost": 0, "limited": 10, "srtt_us": 100_000} | {
        name: value for name, value in values.items() if name in AimdFold.report_fields
    }
    head = {"now_us": 1_000_000, "cwnd_bytes": 100 * MSS} | {
        name: value for name, value in values.items() if name not in fields
    }
    return FakeReport(head, fields, "Aimd")


def decide(algorithm: Aimd, **values: Any) -> float:
    before = len(algorithm.flow.calls)  # type: ignore[attr-defined]
    algorithm.on_report(report(**values))
    calls = algorithm.flow.calls[before:]  # type: ignore[attr-defined]
    return calls[-1][1]["cwnd_bytes"] / MSS if calls else 0


def test_file_is_short_enough_to_be_read() -> None:
    assert len(Path(example_aimd.__file__).read_text().splitlines()) < 60


def test_slow_start_doubles_and_avoidance_adds_a_segment() -> None:
    algorithm = make()
    assert decide(algorithm, acked=100 * MSS) == 200
    algorithm.ssthresh_bytes = 50 * MSS
    assert decide(algorithm, acked=100 * MSS) == 101


def test_window_stays_when_it_is_not_used_up() -> None:
    assert decide(make(), acked=100 * MSS, limited=0) == 100


def test_loss_halves_once_a_round_trip() -> None:
    algorithm = make()
    assert decide(algorithm, lost=3) == 50
    assert decide(algorithm, lost=2, now_us=1_050_000, cwnd_bytes=50 * MSS) == 0
    assert decide(algorithm, lost=1, now_us=1_100_000, cwnd_bytes=50 * MSS) == 25


def test_timeout_starts_over_from_the_window_of_the_kernel() -> None:
    algorithm = make()
    decide(algorithm, acked=100 * MSS)
    assert decide(algorithm, lost=100, cwnd_bytes=MSS) == 1
    assert algorithm.ssthresh_bytes == 100 * MSS
    assert decide(algorithm, acked=2 * MSS, cwnd_bytes=2 * MSS) == 4


def test_fold_reports_each_round_trip_and_at_once_on_loss() -> None:
    flow = Folded(AimdFold, 10)
    assert [flow.ack(2, after_us=50_001) is not None for _ in range(4)] == [False, True, False, True]
    lossy = flow.ack(1, lost_pkts_sample=1)
    assert lossy is not None
    assert (lossy["lost"], lossy["limited"]) == (1, 1)


def rows(**columns: list[int]) -> Any:
    names = ["flow_id", "now_us", "cwnd_bytes", *VectorAimdFold.report_fields]
    reports = np.zeros(len(next(iter(columns.values()))), np.dtype([(name, "<u8") for name in names]))
    reports["mss_bytes"] = MSS
    for name, column in columns.items():
        reports[name] = column
    return reports


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1 << 33),  # acked
            st.sampled_from([0, 0, 0, 1, 50]),  # lost
            st.integers(0, 3),  # limited
            st.integers(0, 500_000),  # srtt_us
            st.integers(1_000_000, 3_000_000),  # now_us
            st.integers(MSS, 1 << 30),  # cwnd_bytes
        ),
        max_size=20,
    )
)
def test_vectorised_variant_decides_as_the_scalar_one(steps: list[tuple[int, ...]]) -> None:
    scalar, vector = make(), VectorAimd()
    vector.on_create(FakeInfo())
    for acked, lost, limited, srtt_us, now_us, cwnd_bytes in steps:
        values = {
            "acked": acked,
            "lost": lost,
            "limited": limited,
            "srtt_us": srtt_us,
            "now_us": now_us,
            "cwnd_bytes": cwnd_bytes,
        }
        before = len(scalar.flow.calls)  # type: ignore[attr-defined]
        scalar.on_report(report(**values))
        calls = scalar.flow.calls[before:]  # type: ignore[attr-defined]
        updates = vector.on_reports(
            rows(flow_id=[FakeInfo().flow_id], **{name: [value] for name, value in values.items()}), "default"
        )
        assert (updates is None) == (not calls)
        if updates is not None:
            assert int(updates.cwnd_bytes[0]) == pytest.approx(calls[0][1]["cwnd_bytes"], abs=1)


def test_vectorised_flows_do_not_touch_each_other() -> None:
    vector = VectorAimd()
    ids = [(1 << 32) | 3, (2 << 32) | 200]
    for flow_id in ids:
        vector.on_create(FakeInfo(flow_id=flow_id))
    updates = vector.on_reports(
        rows(
            flow_id=ids,
            now_us=[10, 10],
            cwnd_bytes=[100 * MSS] * 2,
            acked=[MSS] * 2,
            lost=[1, 0],
            limited=[1, 1],
        ),
        "default",
    )
    assert updates is not None
    assert dict(zip(updates.flow_ids.tolist(), updates.cwnd_bytes.tolist(), strict=True)) == {
        ids[0]: 50 * MSS,
        ids[1]: 101 * MSS,
    }


def test_slot_used_again_begins_in_slow_start() -> None:
    vector = VectorAimd()
    vector.on_create(FakeInfo(flow_id=(1 << 32) | 3))
    vector.on_reports(rows(flow_id=[(1 << 32) | 3], now_us=[10], cwnd_bytes=[100 * MSS], lost=[1]), "default")
    assert vector.ssthresh_bytes[3] == 50 * MSS
    vector.on_create(FakeInfo(flow_id=(2 << 32) | 3))
    assert vector.ssthresh_bytes[3] == np.inf
