from ccp_algs.const import Const, ConstFold
from ccp_algs.simulated_flow import FakeInfo, FakeReport, RecordingFlow
from tests.unit.ccp_algs.folded import LOSS, MSS, Folded


def test_window_stays_where_it_is_put_whatever_happens() -> None:
    flow = Folded(ConstFold, 10, fixed_cwnd_bytes=50 * MSS)
    flow.ack(1)
    assert flow.cwnd == 50 * MSS
    flow.ca_state = LOSS
    flow.cwnd = MSS
    flow.ack(0, was_timeout=1, lost_pkts_sample=50)
    assert flow.cwnd == 50 * MSS


def test_window_leaves_room_for_the_rate() -> None:
    flow = Folded(ConstFold, 10, fixed_rate_bytes_per_s=10_000_000)
    flow.ack(1)
    assert flow.interpreter.rate_bytes_per_s == 10_000_000
    assert flow.cwnd == 2 * 10_000_000 // 10  # 100 ms


def test_slow_rate_keeps_ten_segments() -> None:
    flow = Folded(ConstFold, 2, fixed_rate_bytes_per_s=1000)
    flow.ack(1)
    assert flow.cwnd == 10 * MSS


def test_fastest_rate_does_not_overflow_on_the_longest_path() -> None:
    flow = Folded(ConstFold, 10, fixed_rate_bytes_per_s=125_000_000_000)
    flow.srtt_us = 60_000_000
    flow.ack(1)
    assert flow.cwnd == 2 * 125_000_000_000 * 60


def test_parameters_are_set_at_the_start_when_changed_and_when_the_program_started_again() -> None:
    algorithm = Const()
    flow = RecordingFlow(FakeInfo(), {"default": ConstFold.source})
    algorithm.flow = flow
    algorithm.cwnd_bytes = 20_000
    algorithm.on_create(FakeInfo())
    assert flow.calls[-1][1] == {"fixed_cwnd_bytes": 20_000, "fixed_rate_bytes_per_s": 0}
    quiet = FakeReport({}, {"started": 0}, "Const")
    calls = len(flow.calls)
    algorithm.on_report(quiet)
    assert len(flow.calls) == calls
    algorithm.rate_bytes_per_s = 5000
    algorithm.on_params(frozenset({"rate_bytes_per_s"}))
    assert flow.calls[-1][1]["fixed_rate_bytes_per_s"] == 5000
    algorithm.on_report(FakeReport({}, {"started": 1}, "Const"))
    assert len(flow.calls) == calls + 2


def test_first_report_says_that_the_program_started() -> None:
    flow = Folded(ConstFold, 10)
    report = flow.ack(1)
    assert report is not None
    assert report["started"] == 1
    assert flow.ack(1) is None
