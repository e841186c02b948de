"""ECN as both ends negotiated it: the mode of a flow, and its marks compared with those of the path."""

from __future__ import annotations

import itertools

from ccp_algs.dctcp import DctcpFold
from ccplane.base import _native
from tests.kernel.driving import Driver, loaded
from tests.kernel.ecn_marks import ASKS, Ends, differences, known_settings, marking_path


def test_modes_and_marks_agree_with_both_ends_and_the_path() -> None:
    assert differences(itertools.product(ASKS, ASKS)) == []


def test_dctcp_reduces_by_the_marks_of_the_path() -> None:
    """With a DCTCP receiver, and with AccECN where the kernel has it and the receiver is any."""
    clients = {}
    with marking_path() as (net, at_the_end), loaded() as datapath:
        datapath.register("ccp.dctcp", True)
        program = datapath.install(_native.compile(str(DctcpFold)))
        ends = Ends(net, Driver(datapath, program), "ccp.dctcp")
        for mode, setting, receiver in (("rfc3168", 2, "ccp.dctcp"), ("accecn", 3, "cubic")):
            if setting in known_settings(net.hosts["sender"]):
                ends.listen(receiver)
                ends.set_ecn(setting, setting)
                clients[mode] = ends.send([[1300] * 100], report_us=1)
    for mode, client in clients.items():
        marked_bytes = sum(report.marked for report in client.reports)
        assert (client.info.ecn_mode, client.info.ecn_ok) == (mode, True)
        assert marked_bytes == at_the_end[client.port].payload_bytes, mode
        assert 0 < marked_bytes < client.acked_bytes, mode
        assert 0 < client.reports[-1].alpha_ppm < 1_000_000, mode
        assert sum(report.ecn_cuts for report in client.reports) > 0, mode
