"""What an ACK costs, and the kernel's CUBIC in BPF without an agent, on real sockets."""

from __future__ import annotations

import platform

import pytest

from experiments.agent_process import running_agent
from experiments.bench.ack_price import OWN, priced_transfer
from experiments.bench.bpf_objects import runs_of_struct_ops
from experiments.bench.builds import this_build
from experiments.bench.errors import BenchError
from experiments.bench.side_by_side import ack_ns_together, side_by_side
from experiments.netlab import Path, available_congestion_controls, iperf3

ACK_HOOKS = {
    "ccp_cong_contro",
    "ccp_in_ack_even",
}  # as long as the kernel keeps names; the second before 6.10


def test_an_ack_has_a_price_and_counting_ends_with_the_transfer(wire: Path) -> None:
    with running_agent("cubic"):
        price = priced_transfer(wire, "ccp.cubic", OWN)
        counted = runs_of_struct_ops(OWN)
        iperf3(wire.sender, wire.receiver, congestion="ccp.cubic", duration_s=1)
        assert runs_of_struct_ops(OWN) == counted
        with pytest.raises(BenchError) as caught:
            priced_transfer(wire, "cubic", OWN)
    assert caught.value.slug == "bench.no_program_ran"
    assert price.acks > 0
    assert price.ack_ns == pytest.approx(sum(price.hook_ns.values()))
    assert max(price.hook_ns, key=price.hook_ns.__getitem__) in ACK_HOOKS


def test_two_builds_run_side_by_side_and_leave_nothing(path_100mbit: Path) -> None:
    builds = {"this": this_build(), "against": this_build()}
    major, minor = map(int, platform.release().split(".")[:2])
    if (major, minor) < (6, 11):
        with pytest.raises(BenchError) as caught, side_by_side(builds, "cubic"):
            pass
        assert caught.value.slug == "bench.cannot_compare"
    else:
        with side_by_side(builds, "cubic") as sides:
            assert {"ccp.this", "ccp.against"} <= set(available_congestion_controls())
            assert not sides["this"].programs & sides["against"].programs
            assert min(ack_ns_together(path_100mbit, list(sides.values()))) > 0
    assert not [name for name in available_congestion_controls() if name.startswith("ccp")]
