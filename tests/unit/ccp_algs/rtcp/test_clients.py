"""One detector for all flows to a client, and what is remembered of it."""

from ccp_algs.rtcp import Options, Progress
from ccp_algs.rtcp.remote import Remote, packed
from ccplane.base._native import RtcpClients, RtcpConnection, RtcpState

RTT_US = 10_000
HERE = packed("192.0.2.7")


def at(time_ms: float, delivered_pkts: int, lost_pkts: int = 0) -> Progress:
    return Progress(round(time_ms * 1000), delivered_pkts, lost_pkts, RTT_US)


def of(options: Options | None = None) -> RtcpClients:
    return RtcpClients((options or Options()).to_bytes(), 1448)


def known(flow: RtcpConnection) -> RtcpState:
    found = flow.detector
    assert found is not None
    return found


def name(flow: RtcpConnection) -> str:
    return Remote.from_bytes(flow.remote).name


def limit(*flows: RtcpConnection) -> float:
    """Let flows share a bucket of 500 packets, refilled by 100 a second; return when it is found [ms]."""
    n = len(flows)
    for flow in flows:
        flow.start(at(0, 0))
    for i in range(1, 101):
        flows[i % n].ack(at(i, 5 * (i // n)))
    for i in range(1, 1000):
        time_ms = 100 + 10 * i
        flows[i % n].ack(at(time_ms, 500 // n + i // n, (200 + i) // n))
        if known(flows[0]).limited:
            return time_ms
    raise AssertionError


def no_longer(flow: RtcpConnection) -> float:
    """Let a flow find its limit, and then that it is gone; return when that is over [ms]."""
    end_ms = limit(flow)
    for i in range(1, 3000):
        flow.ack(at(end_ms + i, 1000 + 6 * i, 200))
    assert known(flow).found
    assert not known(flow).limited
    return end_ms + 3000


def test_flows_to_a_client_are_taken_together() -> None:
    clients = of()
    flows = [clients.open(HERE, 0, at(0, 0)) for _ in range(3)]
    limit(*flows)
    assert len(clients) == 1
    assert 0.88 < known(flows[2]).rate_bytes_per_s / (100 * 1448) < 1.12


def test_what_is_found_does_not_depend_on_the_number_of_flows() -> None:
    one, two = of(), of()
    alone = one.open(HERE, 0, at(0, 0))
    both = [two.open(HERE, 0, at(0, 0)) for _ in range(2)]
    limit(alone)
    limit(*both)
    ratio = known(alone).rate_bytes_per_s / known(both[0]).rate_bytes_per_s
    assert 0.9 < ratio < 1.1


def test_clients_are_judged_apart() -> None:
    clients = of()
    limited, other = clients.open(HERE, 0, at(0, 0)), clients.open(packed("2001:db8::1"), 0, at(0, 0))
    limit(limited)
    assert not known(other).limited


def test_a_transfer_begins_when_the_first_flow_becomes_active() -> None:
    clients = of()
    first, second = clients.open(HERE, 1, at(0, 0)), clients.open(HERE, 2, at(0, 0))
    first.start(at(1, 0))
    second.start(at(2, 0))
    assert known(first).started_at_us == 1000
    first.ack(at(3, 1), idle=True)
    first.start(at(4, 1))
    assert known(first).started_at_us == 1000
    first.ack(at(5, 2), idle=True)
    second.ack(at(5, 1), idle=True)
    second.start(at(6, 1))
    assert known(first).started_at_us == 6000


def test_the_next_connection_is_limited_from_its_start_and_finds_the_tokens_gathered() -> None:
    clients = of()
    flow = clients.open(HERE, 0, at(0, 0))
    end_ms = limit(flow)
    left = known(flow).tokens_bytes(round(end_ms * 1000))
    flow.close(at(end_ms, 10_000, 200))
    assert len(clients) == 1
    following = clients.open(HERE, 0, at(end_ms + 1000, 0))
    assert known(following).limited
    tokens = known(following).tokens_bytes(round((end_ms + 1000) * 1000))
    assert tokens > left
    assert abs(tokens - left - known(following).rate_bytes_per_s) < 1


def test_a_client_is_forgotten_when_its_time_is_up() -> None:
    clients = of(Options(kept_s=1))
    flow = clients.open(HERE, 0, at(0, 0))
    end_ms = limit(flow)
    flow.close(at(end_ms, 10_000, 200))
    assert known(clients.open(HERE, 0, at(end_ms + 1001, 0))).limited is False


def test_only_the_limited_are_remembered() -> None:
    clients = of()
    flow = clients.open(HERE, 0, at(0, 0))
    flow.start(at(0, 0))
    flow.ack(at(10, 10))
    flow.close(at(20, 10))
    assert len(clients) == 0


def test_a_limit_that_is_gone_is_forgotten_with_the_last_connection() -> None:
    clients = of()
    flow = clients.open(HERE, 0, at(0, 0))
    end_ms = no_longer(flow)
    flow.close(at(end_ms, 20_000, 200))
    assert len(clients) == 0
    again = clients.open(HERE, 0, at(end_ms + 1, 0))
    assert not known(again).found


def test_a_connection_after_the_end_of_a_limit_looks_again() -> None:
    clients = of()
    flow = clients.open(HERE, 0, at(0, 0))
    end_ms = no_longer(flow)
    following = clients.open(HERE, 0, at(end_ms, 0))
    assert not known(following).limited
    assert not known(following).found
    assert not known(flow).found, "they share a detector"


def heavy(flow: RtcpConnection) -> float:
    """Let a flow lose enough to be judged, and nothing come of it yet; return when [ms]."""
    flow.start(at(0, 0))
    for i in range(1, 101):
        flow.ack(at(i, 5 * i))
    for i in range(1, 12):
        flow.ack(at(100 + 10 * i, 500 + i, 200))
    assert known(flow).is_undecided
    return 210


def test_a_client_that_is_about_to_be_judged_is_kept_for_its_next_connection() -> None:
    for wait_ms, is_kept in ((9_999, True), (10_001, False)):
        clients = of()
        flow = clients.open(HERE, 0, at(0, 0))
        end_ms = heavy(flow)
        flow.close(at(end_ms, 511, 200))
        following = clients.open(HERE, 0, at(end_ms + wait_ms, 0))
        assert known(following).is_undecided == is_kept
        assert len(clients) == 1


def behind_one_address(**options: bool) -> tuple[RtcpClients, RtcpConnection, RtcpConnection]:
    """Let a flow be limited to 100 packets a second, while one to the same address loses nothing at 4000."""
    clients = of(Options(**options))
    limited, other = (clients.open(HERE, port, at(0, 0)) for port in (1, 2))
    limited.start(at(0, 0))
    other.start(at(0, 0))
    for i in range(1, 101):
        limited.ack(at(i, 5 * i))
        other.ack(at(i, 4 * i))
    for i in range(1, 100):
        time_ms = 100 + 10 * i
        limited.ack(at(time_ms, 500 + i, 200 + 2 * i))
        other.ack(at(time_ms, 400 + 40 * i))
    return clients, limited, other


def test_flows_that_cannot_share_a_bucket_are_clients_of_their_own_for_good() -> None:
    clients, limited, other = behind_one_address()
    assert [name(flow) for flow in (limited, other)] == ["192.0.2.7:1", "192.0.2.7:2"]
    for i in range(100, 1000):
        limited.ack(at(100 + 10 * i, 500 + i, 200 + 2 * i))
    assert known(limited).limited
    assert 0.88 < known(limited).rate_bytes_per_s / (100 * 1448) < 1.12
    assert not known(other).limited
    assert name(clients.open(HERE, 3, at(20_000, 0))) == "192.0.2.7:3"
    for flow, port in ((limited, 1), (other, 2)):
        flow.close(at(20_000, 50_000, 5_000))
        assert known(clients.open(HERE, port, at(21_000, 0))).limited == (port == 1)
    assert name(clients.open(packed("192.0.2.8"), 3, at(22_000, 0))) == "192.0.2.8"


def test_clients_stay_whole_where_that_is_wished() -> None:
    _, limited, other = behind_one_address(falls_apart=False)
    assert limited.remote == other.remote
    assert name(limited) == "192.0.2.7"
