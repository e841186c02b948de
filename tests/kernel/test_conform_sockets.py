"""Cases of `ccp conform` on real sockets."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from experiments.conform import Lab, run_suite
from experiments.conform.cases import Undecided
from experiments.netlab.namespace import names

pytestmark = pytest.mark.kernel

QUICK = ("starts-with-at-most-ten-segments", "continues-after-an-outage", "reacts-to-ecn")


@pytest.mark.parametrize("algorithm", ["kernel/cubic", "cubic"])
def test_cases_come_out_as_in_the_simulator(algorithm: str) -> None:
    results = run_suite("general", algorithm, only=QUICK, datapath="ebpf")
    assert [(one.case, one.outcome, one.datapath) for one in results] == [
        (one.case, "passes", "ebpf") for one in run_suite("general", algorithm, only=QUICK)
    ], [one.said for one in results]
    first = results[0].comparisons[0].value
    assert first is not None
    assert 8 <= first <= 10  # SYN and the ACK of the answer are subtracted; a server may send one of them


def test_arrivals_are_counted_by_the_millisecond() -> None:
    lab = Lab("kernel/cubic", datapath="ebpf")
    try:
        net = lab.path(rate_mbit=20, rtt_ms=20)
        net.run(2)
        before = net.counters()["arrived_pkts"]
        arrivals = net.arrivals_pkts(2)
        after = net.counters()["arrived_pkts"]
        assert len(arrivals) == 2000
        # 20 Mbit/s are 1667 packets a second; the counters also have those of some 50 ms more.
        assert 0.85 * 3333 < arrivals.sum() <= after - before < 1.1 * 3333
        net.change(rate_bytes_per_s=1.25e6)
        net.run(2)
        assert net.flow.goodput_mbit(net.now_s - 1, net.now_s) == pytest.approx(net.payload_mbit, rel=0.1)
        assert net.scenario().events[0].link == "link>"
        assert np.all(np.diff(net.flow.rows["t_us"].astype(np.int64)) >= 0)
    finally:
        lab.close()


def test_a_case_that_reads_the_algorithm_is_undecided() -> None:
    lab = Lab("bbr3", datapath="ebpf")
    with pytest.raises(Undecided, match="simulator"):
        lab.path(watch=lambda _instance, _report: None)


def test_nothing_remains_after_a_failure(tmp_path: Path) -> None:
    suite = tmp_path / "never.py"
    suite.write_text(
        "from experiments.conform import Lab, case\n"
        "@case('nowhere')\n"
        "def never(lab: Lab) -> None:\n"
        "    lab.path().run(2)\n"
        "    lab.path(rtt_ms=20).run(2)\n"
        "    lab.check('this holds', False)\n"
    )
    (result,) = run_suite(str(suite), "cubic", out=tmp_path / "out", datapath="ebpf")
    assert result.outcome == "fails"
    assert len(result.scenarios) == 2
    assert [Path(file).exists() for file in result.files] == [True, True]
    assert not [name for name in names() if str(os.getpid()) in name.split("-")]
