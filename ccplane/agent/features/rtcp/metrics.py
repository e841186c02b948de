"""What R-TCP knows of clients, in numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from ccp_algs.rtcp.limit import LIMIT_STATES
from ccplane.base.errors import CcpError, LoadError
from ccplane.base.extras import extra_part
from ccplane.datapath import ebpf

if TYPE_CHECKING:
    from prometheus_client.core import Metric

RATE_BOUNDS: Final = (12.5e3, 25e3, 62.5e3, 125e3, 250e3, 625e3, 1.25e6, 2.5e6, 6.25e6)
"""Rates that limited clients are counted by [bytes/s]: 0.1 to 50 Mbit/s."""

READ_TIMEOUT_S: Final = 5.0

Read = Callable[[], Mapping[str, Any] | None]
"""Returns `RtcpAttached.summary`, or None where there is no table."""


def _keep_one_right() -> None:
    with suppress(LoadError):  # a build without the kernel part has nothing to read, either
        ebpf.drop_capabilities(["CAP_BPF"])


class RateLimitCollector:
    """Collects metrics of a table of clients at each scrape.

    Scrapes have no rights. So a thread that is made with the collector reads the table, and keeps what that
    takes.
    """

    def __init__(self, read: Read) -> None:
        """Begin the thread.

        Args:
            read: How to read the table.

        Raises:
            LoadError: `load.no_extra`.
        """
        with extra_part():
            import prometheus_client.core as core
        self._core = core
        self._read = read
        self._reader = ThreadPoolExecutor(1, "ccp-rate-limits", _keep_one_right)
        self._reader.submit(int)  # the thread begins now, and not with the rights of a scrape

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; none where there is no table, or it cannot be read in time."""
        try:
            known = self._reader.submit(self._read).result(READ_TIMEOUT_S)
        except (CcpError, TimeoutError):
            return
        if known is not None:
            yield from self._families(known)

    def close(self) -> None:
        """End the thread."""
        self._reader.shutdown(wait=False)

    def _families(self, known: Mapping[str, Any]) -> Iterator[Metric]:
        clients = self._core.GaugeMetricFamily(
            "ccplane_rate_limit_clients", "Clients that R-TCP knows, by state.", labels=["state"]
        )
        for state, count in zip(LIMIT_STATES, known["clients"], strict=True):
            if state != "no_room":
                clients.add_metric([state], count)
        yield clients
        yield self._core.GaugeMetricFamily(
            "ccplane_rate_limit_max_clients", "Clients that there is room for.", value=known["max_clients"]
        )
        yield self._core.CounterMetricFamily(
            "ccplane_rate_limit_no_room",
            "Connections that are not bounded, because there was no room for their client.",
            value=known["no_room"],
        )
        names = [*(f"{bound:g}" for bound in RATE_BOUNDS), "+Inf"]
        rates = self._core.GaugeHistogramMetricFamily(
            "ccplane_rate_limit_bytes_per_second", "Distribution of R over limited clients [bytes/s]."
        )
        buckets = list(zip(names, accumulate(known["rates"]), strict=True))
        rates.add_metric([], buckets=buckets, gsum_value=known["rates_sum"])
        yield rates


@contextmanager
def collecting(read: Read) -> Iterator[RateLimitCollector]:
    """Yield a collector for the length of a block.

    Args:
        read: How to read the table.

    Raises:
        LoadError: `load.no_extra`.
    """
    collector = RateLimitCollector(read)
    try:
        yield collector
    finally:
        collector.close()
