from __future__ import annotations

import math

import numpy as np

from ccplane.agent.monitor.history import FlowHistory, Histories, Metric, sample
from tests.unit.agent.monitor.faked import flow_row


def test_sample_has_no_value_where_there_is_none() -> None:
    row = flow_row(1, throughput_bytes_per_s=None, srtt_us=0, rate_bytes_per_s=0, cwnd_bytes=2_896)
    cwnd, throughput, srtt, rate = sample(row)
    assert cwnd == 2_896
    assert all(math.isnan(value) for value in (throughput, srtt, rate))


def test_throughput_of_a_silent_flow_is_zero_and_not_missing() -> None:
    assert sample(flow_row(1, throughput_bytes_per_s=0.0))[Metric.THROUGHPUT] == 0


def test_series_is_what_was_added_oldest_first() -> None:
    history = FlowHistory(flow_row(1), length=4)
    assert history.series(Metric.CWND, 4).shape == (0,)
    for cwnd_bytes in (1, 2, 3):
        history.add(flow_row(1, cwnd_bytes=cwnd_bytes), 100.0 + cwnd_bytes)
    assert history.series(Metric.CWND, 4).tolist() == [1, 2, 3]
    assert history.series(Metric.CWND, 2).tolist() == [2, 3]
    assert history.row.cwnd_bytes == 3


def test_oldest_samples_go_when_the_ring_is_full() -> None:
    history = FlowHistory(flow_row(1), length=4)
    for cwnd_bytes in range(11):
        history.add(flow_row(1, cwnd_bytes=cwnd_bytes, srtt_us=100 + cwnd_bytes), 0.5 * cwnd_bytes)
    assert history.series(Metric.CWND, 99).tolist() == [7, 8, 9, 10]
    assert history.series(Metric.SRTT, 3).tolist() == [108, 109, 110]
    assert history.times_s(2).tolist() == [4.5, 5.0]


def test_flow_keeps_its_history_from_look_to_look() -> None:
    histories = Histories(length=8)
    histories.add([flow_row(1, cwnd_bytes=10), flow_row(2)], 1.0)
    histories.add([flow_row(2), flow_row(1, cwnd_bytes=20), flow_row(3)], 2.0)
    assert list(histories.flows) == [2, 1, 3]
    assert histories.flows[1].times_s(8).tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(histories.flows[1].series(Metric.CWND, 8), [10, 20])
    assert histories.flows[3].series(Metric.CWND, 8).shape == (1,)


def test_flow_that_is_gone_is_marked_and_forgotten() -> None:
    histories = Histories()
    histories.add([flow_row(1), flow_row(2)], 1.0)
    first = histories.flows[1]
    assert not first.closed
    histories.add([flow_row(2)], 2.0)
    assert first.closed
    assert list(histories.flows) == [2]
    assert not histories.flows[2].closed
