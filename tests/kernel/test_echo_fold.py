"""What fold programs read of echoes of the path, on the ACKs that bring them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from operator import attrgetter

import pytest

from ccp_algs.fold import INFINITY
from ccplane.base import _native
from telemetry.ioam import PathEcho
from tests.kernel.driving import Driver, loaded, wait_until
from tests.kernel.echoes import (
    INBAND,
    Chain,
    chained,
    echoes_in,
    newest_of,
    reported,
    transfer,
)
from tests.kernel.inband_hosts import captured, drained, shaped

NO_LIMIT_PKTS = (1 << 32) - 2
ROUND_TRIP_US = 1_000_000
"""More than the bottleneck's buffer takes."""


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with chained() as chain:
        yield chain


def as_folds_have_it(echo: PathEcho, mss_bytes: int) -> tuple[int | bool, ...]:
    free = echo.free_pkts
    return (
        echo.hop or 0,
        echo.node_id or 0,
        echo.hops,
        echo.all_known,
        (echo.queue_pkts or 0) * mss_bytes,
        INFINITY if free == NO_LIMIT_PKTS else (free or 0) * mss_bytes,
        (echo.arrival_pkts_per_s or 0) * mss_bytes,
        echo.link_rate_bytes_per_s or 0,
        echo.flow_count or 0,
        echo.losses_congestion,
        echo.losses_link,
        echo.losses_unknown,
    )


read = attrgetter(
    *("hop", "node", "hops", "known", "queue", "free", "arrival", "link", "flows"),
    *("congestion", "lossy", "unknown"),
)


def test_folds_read_what_the_ack_brought(chain: Chain) -> None:
    with (
        loaded() as datapath,
        shaped(chain.transit, 1.25e6, 60_000),
        captured(chain.source) as near,
        chain.nodes() as running,
        chain.connected("ccp") as (client, server),
    ):
        driver = Driver(datapath, datapath.install(_native.compile(INBAND)))
        driver.until(lambda: driver.seen.created)
        sending = threading.Thread(target=transfer, args=(client, server, 600_000))
        sending.start()
        driver.until(lambda: not sending.is_alive())
        sending.join()
        wait_until(lambda: running.sink.counters().reflected == running.source.counters().received)
        driver.turn()
        last = reported(client)
        echoes = echoes_in(drained(near, chain.sink))
        mss_bytes = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    reports = driver.seen.of(driver.seen.busiest())
    fresh = [report for report in reports if report.fresh]
    before = reports[: reports.index(fresh[0])]
    assert {report.age for report in before} <= {INFINITY}
    assert {read(report) for report in before} <= {(0, 0, 0, False, *[0] * 8)}
    assert all(0 < report.age < ROUND_TRIP_US for report in reports[len(before) :])
    # What came while the socket was busy was folded with the next: each is one of the echoes, in their order.
    carried = iter([as_folds_have_it(echo, mss_bytes) for echo in echoes])
    assert all(read(report) in carried for report in fresh)
    assert len(fresh) > len(echoes) / 2 > 50
    assert last is not None
    assert len(fresh) <= last.echoes <= len(echoes)  # without those that were overtaken
    assert read(reports[-1]) == as_folds_have_it(newest_of(echoes), mss_bytes)
    assert max(report.queue for report in fresh) > 10 * mss_bytes
    # Between two echoes it grows older by what passes, and all else stays.
    for one, next_one in zip(reports[len(before) :], reports[len(before) + 1 :], strict=False):
        if not next_one.fresh:
            assert next_one.age - one.age == next_one.now_us - one.now_us
            assert read(next_one) == read(one)
