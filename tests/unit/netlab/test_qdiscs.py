"""netem and tbf are told what a direction says, in the kernel's own layout (<linux/pkt_sched.h>)."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest
from pyroute2.iproute.linux import get_arguments_processor
from pyroute2.netlink.nlsocket import NetlinkRequest
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from ccplane.base.errors import CcpError, Several
from experiments.netlab import netem
from experiments.netlab.qdiscs import Qdisc, chain, refused
from experiments.netlab.routes import graph_of
from experiments.netlab.spec import (
    Bernoulli,
    Buffer,
    CoDel,
    Direction,
    DropTail,
    GilbertElliott,
    Pattern,
    Red,
    TokenBucket,
)
from experiments.netlab.topologies import point_to_point

ROOT = 0xFFFF_FFFF
ALL = 2**32 - 1  # probability 1 in netem's fixed point
TICKS_PER_US = 1000 / 64  # PSCHED_SHIFT is 6: a tick is 64 ns
OPTIONS = 2  # TCA_OPTIONS
CORRUPT, LOSS, RATE, PRNG_SEED = 4, 5, 6, 14  # TCA_NETEM_*
LOSS_GE = 2  # NETEM_LOSS_GE


def attributes(data: bytes) -> dict[int, bytes]:
    """Return netlink attributes: type -> value."""
    found = {}
    while data:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3FFF] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def options_sent(qdisc: Qdisc) -> bytes:
    """Return the options as they go to the kernel."""
    unconnected = SimpleNamespace(
        addr_pool=SimpleNamespace(alloc=lambda: 1), status={"nlm_echo": False}, epid=1, marshal=None
    )
    ids = {"kind": qdisc.kind, "index": 7, "handle": qdisc.handle, "parent": qdisc.parent}
    arguments = get_arguments_processor("tc", "add", {**ids, **qdisc.options})
    request = NetlinkRequest(unconnected, tcmsg(), "add", {"add": (36, "create")}, request_filter=arguments)
    request.msg.encode()
    index, handle, parent = struct.unpack_from("=iII", request.msg.data, 16 + 4)
    assert (index, handle, parent) == (7, qdisc.handle, qdisc.parent)
    return attributes(bytes(request.msg.data[36:]))[OPTIONS]


def netem_sent(direction: Direction) -> tuple[dict[str, int], dict[int, bytes]]:
    """Return netem's fixed part and its attributes."""
    (qdisc,) = chain(direction, 1500, 42)
    assert (qdisc.kind, qdisc.parent) == ("netem", ROOT)
    data = options_sent(qdisc)
    names = ("latency", "limit", "loss", "gap", "duplicate", "jitter")
    return dict(zip(names, struct.unpack_from("=6I", data), strict=True)), attributes(data[24:])


def test_a_delay_is_told_in_ticks() -> None:
    fixed, more = netem_sent(Direction(delay_us=50_000))
    assert fixed["latency"] == pytest.approx(50_000 * TICKS_PER_US)
    assert fixed["limit"] == 1_000_000
    assert [fixed[name] for name in ("loss", "gap", "duplicate", "jitter")] == [0, 0, 0, 0]
    assert struct.unpack("=II", more[CORRUPT]) == (0, 0)
    assert struct.unpack("=IiIi", more[RATE]) == (0, 0, 0, 0)
    assert struct.unpack("=Q", more[PRNG_SEED]) == (42,)
    assert LOSS not in more


def test_jitter_is_added_and_reorders_nothing() -> None:
    fixed, more = netem_sent(Direction(delay_us=50_000, jitter_us=4000))
    assert fixed["latency"] == pytest.approx(52_000 * TICKS_PER_US)  # 50 to 54 ms
    assert fixed["jitter"] == pytest.approx(2000 * TICKS_PER_US)
    assert struct.unpack("=IiIi", more[RATE])[0] == ALL


def test_ratios_are_fractions_of_32_bits() -> None:
    direction = Direction(loss=Bernoulli(0.25), duplicate_ratio=0.5, corrupt_ratio=1.0)
    fixed, more = netem_sent(direction)
    assert fixed["loss"] == pytest.approx(ALL / 4, abs=1)
    assert fixed["duplicate"] == pytest.approx(ALL / 2, abs=1)
    assert struct.unpack("=II", more[CORRUPT]) == (ALL, 0)


def test_gilbert_elliott_is_told_as_the_kernel_counts() -> None:
    loss = GilbertElliott(good_to_bad=0.25, bad_to_good=0.5, loss_bad=0.75, loss_good=1.0)
    fixed, more = netem_sent(Direction(loss=loss))
    assert fixed["loss"] == 0
    p, r, h, k1 = struct.unpack("=4I", attributes(more[LOSS])[LOSS_GE])
    # sch_netem: h is the probability that a packet survives the bad state, k1 that it is lost in the good one
    assert [value / ALL for value in (p, r, h, k1)] == pytest.approx([0.25, 0.5, 0.25, 1.0], abs=1e-9)


def tbf_sent(qdisc: Qdisc) -> tuple[int, int, int]:
    """Return the rate [bytes/s], the bucket [bytes] and the limit [bytes] that tbf is told."""
    assert qdisc.kind == "tbf"
    parameters = attributes(options_sent(qdisc))[1]  # TCA_TBF_PARMS
    # struct tbf_qopt: two tc_ratespec of 12 bytes, the rate last in each; limit, buffer [ticks], mtu
    rate = struct.unpack_from("=I", parameters, 8)[0]
    limit, buffer_ticks, _ = struct.unpack_from("=III", parameters, 24)
    return rate, round(buffer_ticks / TICKS_PER_US * rate / 1e6), limit


def test_a_rate_is_a_bucket_that_counts_headers() -> None:
    (tbf,) = chain(Direction(rate_bytes_per_s=15e6, buffer=Buffer(bytes=150_000)), 1500, 1)
    assert (tbf.parent, tbf.handle) == (ROOT, 0x20000)
    rate, burst, limit = tbf_sent(tbf)
    assert rate == 15_140_000
    assert burst == pytest.approx(15_140, rel=0.01)  # 1 ms
    assert limit == 151_400


def test_a_buffer_in_packets_is_a_queue_of_packets() -> None:
    tbf, pfifo = chain(Direction(rate_bytes_per_s=1e6, buffer=Buffer(packets=77)), 1500, 1)
    assert (pfifo.kind, pfifo.parent) == ("pfifo", tbf.handle + 1)
    assert struct.unpack("=i", options_sent(pfifo)) == (77,)


def test_a_rate_comes_behind_the_delay() -> None:
    direction = Direction(rate_bytes_per_s=1e6, delay_us=1000, buffer=Buffer(bytes=15_000))
    netem_, tbf = chain(direction, 1500, 1)
    assert (netem_.parent, netem_.handle) == (ROOT, 0x10000)
    assert tbf.parent == netem_.handle + 1


def test_a_shaper_is_its_bucket() -> None:
    bucket = TokenBucket(rate_bytes_per_s=1.5e6, bucket_bytes=30_000, shaper=True)
    (tbf,) = chain(Direction(token_bucket=bucket, buffer=Buffer(bytes=15_000)), 1500, 1)
    rate, burst, limit = tbf_sent(tbf)
    assert (rate, limit) == (1_514_000, 15_140)
    assert burst == pytest.approx(30_280, rel=0.01)


def test_a_wire_that_does_nothing_needs_no_qdisc() -> None:
    assert chain(Direction(buffer=Buffer(packets=1000)), 1500, 1) == []


@pytest.mark.parametrize(
    ("direction", "field"),
    [
        (Direction(trace="x.trace"), "trace"),
        (Direction(queue=CoDel()), "queue"),
        (Direction(queue=Red(min_bytes=1, max_bytes=2)), "queue"),
        (Direction(queue=DropTail(ce_threshold_us=0)), "queue"),
        (Direction(loss=Pattern((1,))), "loss"),
        (Direction(token_bucket=TokenBucket(1e6, 3000)), "token_bucket.shaper"),
        (Direction(rate_bytes_per_s=1e6, token_bucket=TokenBucket(1e6, 3000, shaper=True)), "token_bucket"),
        (Direction(rate_bytes_per_s=5e9), "rate_bytes_per_s"),
    ],
)
def test_what_only_the_emulator_can_names_its_field(direction: Direction, field: str) -> None:
    (error,) = refused(direction, "link>")
    assert error.slug == "lab.netem_cannot"
    assert error.where == f"link>.{field}"
    assert "emulator" in error.fix
    with pytest.raises(CcpError):
        netem.check(graph_of(point_to_point(Direction(), Direction())).set_link("link>", direction))


def test_all_wishes_that_netem_does_not_grant_come_at_once() -> None:
    graph = graph_of(point_to_point(Direction(queue=CoDel()), Direction(loss=Pattern((1,)))))
    with pytest.raises(Several) as caught:
        netem.check(graph)
    assert [error.where for error in caught.value.errors] == ["link>.queue", "link<.loss"]
