from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import metrics
from experiments.metrics import MetricError, jain_index

amounts = st.lists(st.floats(0, 1e12, allow_subnormal=False), min_size=1, max_size=20)


def flow_samples(flow: str = "a", **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"flow": flow, **columns})


def steady(flow: str, rate_bytes_per_s: float, stop_s: float, every_s: float = 0.1) -> pd.DataFrame:
    t_s = np.arange(0, stop_s + every_s / 2, every_s)
    return flow_samples(flow, t_s=t_s, bytes_acked=(t_s * rate_bytes_per_s).astype(np.int64))


def test_within_takes_both_ends_and_puts_in_order() -> None:
    found = metrics.within(flow_samples(t_s=[3.0, 1.0, 2.0, 4.0], x=[3, 1, 2, 4]), 1, 3)
    assert found["x"].tolist() == [1, 2, 3]


def test_a_missing_column_is_named_with_those_there_are() -> None:
    with pytest.raises(MetricError) as caught:
        metrics.goodput_bytes_per_s(flow_samples(t_s=[1.0]))
    assert caught.value.slug == "metric.no_column"
    assert "`bytes_acked`" in caught.value.message
    assert "t_s" in caught.value.why


def test_goodput_is_what_was_acknowledged_by_time_for_each_flow() -> None:
    samples = pd.concat(
        [
            flow_samples("a", t_s=[1.0, 2.0, 5.0], bytes_acked=[100, 7, 900]),
            flow_samples("b", t_s=[0.0, 0.5], bytes_acked=[0, 50]),
        ]
    )
    assert metrics.goodput_bytes_per_s(samples).to_dict() == {"a": 200.0, "b": 100.0}


def test_goodput_does_not_depend_on_the_order_of_rows() -> None:
    samples = flow_samples(t_s=[5.0, 1.0], bytes_acked=[900, 100])
    assert metrics.goodput_bytes_per_s(samples)["a"] == 200


@pytest.mark.parametrize(
    ("t_s", "acked"),
    [([1.0], [5]), ([1.0, 1.0], [5, 6]), ([1.0, 2.0], [5, None]), ([1.0, None], [5, 6])],
)
def test_goodput_is_missing_without_two_samples(t_s: list[Any], acked: list[Any]) -> None:
    assert math.isnan(metrics.goodput_bytes_per_s(flow_samples(t_s=t_s, bytes_acked=acked))["a"])


def test_goodput_of_no_flows_is_empty() -> None:
    assert metrics.goodput_bytes_per_s(flow_samples(t_s=[], bytes_acked=[])).empty


def test_goodput_over_time_of_a_steady_flow_is_that_rate_in_every_interval() -> None:
    rates = metrics.goodput_over_time(steady("a", 1e6, 3.0), 0.5)
    assert rates["start_s"].tolist() == pytest.approx([0, 0.5, 1, 1.5, 2, 2.5])
    assert rates["t_s"].iloc[0] == pytest.approx(0.25)
    np.testing.assert_allclose(rates["goodput_bytes_per_s"], 1e6, rtol=1e-5)


def test_a_silent_flow_has_a_longer_interval_and_no_invented_values() -> None:
    samples = flow_samples(t_s=[0.0, 1.0, 4.0, 5.0], bytes_acked=[0, 10, 10, 30])
    rates = metrics.goodput_over_time(samples, 1.0)
    assert rates[["start_s", "end_s"]].to_numpy().tolist() == [[0, 1], [1, 4], [4, 5]]
    assert rates["goodput_bytes_per_s"].tolist() == [10, 0, 20]


def test_goodput_over_time_of_nothing_has_the_columns() -> None:
    empty = metrics.goodput_over_time(flow_samples(t_s=[], bytes_acked=[]), 1.0)
    assert list(empty.columns) == ["flow", "start_s", "end_s", "t_s", "goodput_bytes_per_s"]


@given(
    times=st.lists(st.floats(0, 100), min_size=2, max_size=50, unique=True),
    interval_s=st.floats(0.01, 20),
)
def test_intervals_join_are_long_enough_and_lose_no_byte(times: list[float], interval_s: float) -> None:
    t_s = np.sort(np.array(times))
    acked = np.arange(len(t_s)) * 1000
    rates = metrics.goodput_over_time(flow_samples(t_s=t_s, bytes_acked=acked), interval_s)
    if rates.empty:
        assert t_s[-1] - t_s[0] < interval_s
        return
    length_s = rates["end_s"] - rates["start_s"]
    assert (length_s >= interval_s - 1e-6).all()
    assert rates["start_s"].iloc[1:].tolist() == rates["end_s"].iloc[:-1].tolist()
    carried = (rates["goodput_bytes_per_s"] * length_s).sum()
    assert carried == pytest.approx(acked[np.searchsorted(t_s, rates["end_s"].iloc[-1])])


def test_utilisation_is_delivered_by_capacity() -> None:
    samples = pd.DataFrame(
        {"link": ["l>", "l>", "l<", "l<"], "t_s": [0.0, 10, 0, 10], "delivered_bytes": [100, 5100, 0, 10]}
    )
    found = metrics.utilisation_ratio(samples, {"l>": 1000.0})
    assert found["l>"] == 0.5
    assert math.isnan(found["l<"])


def test_a_link_without_capacity_is_refused() -> None:
    samples = pd.DataFrame({"link": ["l>"] * 2, "t_s": [0.0, 1], "delivered_bytes": [0, 1]})
    with pytest.raises(MetricError) as caught:
        metrics.utilisation_ratio(samples, {"l>": 0.0})
    assert caught.value.slug == "metric.bad_value"


def test_loss_is_a_share_of_what_arrived_in_that_time() -> None:
    samples = pd.DataFrame(
        {
            "link": ["l>"] * 3 + ["l<"] * 2,
            "t_s": [0.0, 1, 2, 0, 2],
            "arrived_pkts": [100, 200, 300, 0, 0],
            "dropped_loss_pkts": [50, 51, 52, 0, 0],
        }
    )
    found = metrics.loss_ratio(samples)
    assert found["l>"] == 0.01
    assert math.isnan(found["l<"])


def test_retransmitted_is_a_share_of_all_that_was_sent() -> None:
    samples = flow_samples(t_s=[0.0, 1.0], bytes_retrans=[10, 12], bytes_sent=[1000, 1100])
    assert metrics.retrans_pct(samples)["a"] == pytest.approx(2.0)


def test_retransmitted_of_a_flow_that_sent_nothing_is_missing() -> None:
    samples = flow_samples(t_s=[0.0, 1.0], bytes_retrans=[0, 0], bytes_sent=[0, 0])
    assert math.isnan(metrics.retrans_pct(samples)["a"])


def test_rtt_percentiles_leave_missing_measurements_out() -> None:
    samples = pd.concat(
        [
            flow_samples("a", rtt_us=[1000.0, 2000, 3000, np.nan, 4000, 5000]),
            flow_samples("b", rtt_us=[np.nan, np.nan]),
        ]
    )
    found = metrics.rtt_percentiles_us(samples, (0, 50, 90, 100))
    assert list(found.columns) == ["rtt_p0_us", "rtt_p50_us", "rtt_p90_us", "rtt_p100_us"]
    assert found.loc["a"].tolist() == [1000, 3000, 4600, 5000]
    assert found.loc["b"].isna().all()


def test_percentiles_of_the_smoothed_rtt_are_called_so() -> None:
    found = metrics.rtt_percentiles_us(flow_samples(srtt_us=[1.0]), (99.9,), "srtt_us")
    assert found.loc["a", "srtt_p99.9_us"] == 1


@pytest.mark.parametrize("q", [-1, 101])
def test_a_percentile_beyond_the_hundred_is_refused(q: float) -> None:
    with pytest.raises(MetricError) as caught:
        metrics.rtt_percentiles_us(flow_samples(rtt_us=[1.0]), (q,))
    assert caught.value.slug == "metric.bad_value"


def test_queueing_delay_is_what_exceeds_the_smallest_rtt_of_the_flow() -> None:
    samples = pd.concat(
        [flow_samples("a", rtt_us=[30.0, 10, np.nan]), flow_samples("b", rtt_us=[7.0, 8])], ignore_index=True
    )
    found = metrics.queueing_delay_us(samples)
    assert found.tolist()[:2] == [20, 0]
    assert math.isnan(found[2])
    assert found.tolist()[3:] == [0, 1]


def test_queueing_delay_over_a_known_path_is_the_rest() -> None:
    assert metrics.queueing_delay_us(flow_samples(rtt_us=[30.0, 10]), 5).tolist() == [25, 5]


@pytest.mark.parametrize(
    ("values", "index"),
    [
        ([5, 5, 5], 1.0),
        ([1, 0, 0, 0], 0.25),
        ([1, 2], 0.9),  # 9 / (2 x 5)
        ([10, 20, 30], 3600 / 4200),
        ([7], 1.0),
        ([1e-200, 1e-200], 1.0),
    ],
)
def test_jain_index_by_hand(values: list[float], index: float) -> None:
    assert jain_index(values) == pytest.approx(index)


@pytest.mark.parametrize("values", [[], [0, 0], [1, float("nan")]])
def test_jain_index_of_what_is_not_known_is_missing(values: list[float]) -> None:
    assert math.isnan(jain_index(values))


@pytest.mark.parametrize("values", [[1, -1], [1, float("inf")]])
def test_jain_index_of_what_cannot_be_is_refused(values: list[float]) -> None:
    with pytest.raises(MetricError) as caught:
        jain_index(values)
    assert caught.value.slug == "metric.bad_value"


@given(amounts.filter(any))
def test_jain_index_is_between_one_nth_and_one(values: list[float]) -> None:
    assert 1 / len(values) - 1e-12 <= jain_index(values) <= 1 + 1e-12


@given(amounts.filter(any), st.floats(1e-6, 1e6))
def test_jain_index_does_not_depend_on_the_unit(values: list[float], scale: float) -> None:
    assert jain_index([scale * one for one in values]) == pytest.approx(jain_index(values))


@given(st.floats(1e-3, 1e9), st.integers(1, 20), st.integers(0, 20))
def test_k_of_n_with_the_same_make_k_by_n(value: float, k: int, others: int) -> None:
    assert jain_index([value] * k + [0] * others) == pytest.approx(k / (k + others))


def hops(**columns: list[object]) -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    same: dict[str, object] = {"flow": "a", "backward": False, "hop": 1, "node": "ap1", "flow_count": 1}
    same |= {"interval_us": 10, "queue_depth_pkts": 0.0, "queue_free_pkts": 5.0, "arrival_pkts_per_s": 100}
    return pd.DataFrame({name: [value] * rows for name, value in same.items()} | columns)


def test_what_a_node_said_is_weighed_by_time() -> None:
    (node,) = metrics.int_nodes(
        hops(
            interval_us=[10, 30],
            queue_depth_pkts=[4.0, 8.0],
            arrival_pkts_per_s=[100, None],
            queue_free_pkts=[2.0, 3.5],
            flow_count=[3, 2],
        )
    ).to_dict("records")
    assert node["queue_depth_pkts"] == pytest.approx(7.0)
    assert node["arrival_pkts_per_s"] == pytest.approx(100.0)  # unknown in the other interval
    assert (node["queue_free_pkts"], node["flow_count"]) == (2.0, 3)


def test_nodes_come_in_the_order_of_the_way_and_what_they_do_not_say_is_unknown() -> None:
    found = metrics.int_nodes(
        hops(hop=[2, 1, 1], node=["ap2", "ap1", "ap2"], backward=[False, False, True], flow_count=[None] * 3)
    )
    assert found["node"].tolist() == ["ap1", "ap2", "ap2"]
    assert found["backward"].tolist() == [False, False, True]
    assert found["flow_count"].isna().all()
    assert metrics.int_nodes(hops(hop=[])).empty


def test_viewing_is_weighed_by_what_was_played() -> None:
    played = pd.DataFrame(
        {
            "flow": ["a", "a", "a", "b"],
            "number": [1, 0, 2, 0],
            "bitrate_bytes_per_s": [250_000.0, 125_000.0, 125_000.0, 50_000.0],
            "played_s": [4.0, 4.0, 2.0, 10.0],
            "startup_s": [float("nan"), 1.5, float("nan"), 0.5],
            "stalls": [1, 2, 0, 0],
            "stalled_s": [0.5, 0.5, 0.0, 0.0],
        }
    )
    found = metrics.viewing(played)
    first = found.loc["a"]
    assert first["bitrate_bytes_per_s"] == pytest.approx(175_000)
    assert (first["played_s"], first["startup_s"], first["stalls"], first["stalled_s"]) == (10, 1.5, 3, 1)
    assert (first["stalls_per_min"], first["stalled_ratio"]) == pytest.approx((18, 0.1))
    # 1, 2 and 1 Mbit/s, changes of 1 up and down, and a stall of one second
    assert first["quality"] == pytest.approx(4 / 3)
    assert first["qoe"] == pytest.approx((4 - 2 - 4.3) / 3)
    assert found.loc["b", "qoe"] == pytest.approx(0.4)
