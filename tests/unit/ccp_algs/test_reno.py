import pytest

from ccp_algs.episodes import STARTED
from ccp_algs.reduction import ALWAYS
from ccp_algs.reno import Reno, RenoFold
from ccp_algs.simulated_flow import FakeInfo, FakeReport, RecordingFlow
from tests.unit.ccp_algs.folded import INFINITY, MSS, Folded


def in_avoidance(cwnd_pkts: int) -> Folded:
    flow = Folded(RenoFold, cwnd_pkts)
    flow.ssthresh = cwnd_pkts * MSS
    flow.ack(0, cwnd_limited=0)
    return flow


@pytest.mark.parametrize(("cwnd_pkts", "pkts_per_ack"), [(10, 1), (100, 2), (1000, 44)])
def test_window_grows_by_a_segment_a_round_trip(cwnd_pkts: int, pkts_per_ack: int) -> None:
    # RFC 5681 section 3.1, counted in bytes (RFC 3465 section 2.1).
    flow = in_avoidance(cwnd_pkts)
    acked = 0
    for _ in range(10):
        target = acked + flow.cwnd
        while acked < target:
            flow.ack(pkts_per_ack, after_us=100)
            acked += pkts_per_ack * MSS
    assert flow.cwnd / MSS == pytest.approx(cwnd_pkts + 10, abs=1)


def test_parameters_reach_the_fold_program() -> None:
    algorithm = Reno()
    flow = RecordingFlow(FakeInfo(), {"default": RenoFold.source})
    algorithm.flow = flow
    algorithm.on_create(FakeInfo())
    fields = dict.fromkeys(RenoFold.report_fields, 0)
    calls = len(flow.calls)
    algorithm.on_report(FakeReport({}, fields, "Reno"))
    assert len(flow.calls) == calls
    algorithm.beta, algorithm.prr = 0.7, "always"
    algorithm.on_params(frozenset({"beta", "prr"}))
    assert flow.calls[-1] == (
        "set",
        {"cut_permille": 700, "prr": ALWAYS, "configured": 1, "report_us": INFINITY},
    )
    algorithm.on_report(FakeReport({}, fields | {"event": STARTED}, "Reno"))
    assert len(flow.calls) == calls + 2
