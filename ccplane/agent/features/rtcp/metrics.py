"""Prometheus metrics of R-TCP's table of clients."""

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
"""Bucket bounds of limited clients' rates [bytes/s]: 0.1 to 50 Mbit/s."""

READ_TIMEOUT_S: Final = 5.0

Read = Callable[[], Mapping[str, Any] | None]
"""Returns `RtcpAttached.summary`, or None where there is no table."""


def _keep_one_right() -> None:
    with suppress(LoadError):  # a build without the kernel part also has nothing to read
        ebpf.drop_capabilities(["CAP_BPF"])


class RateLimitCollector:
    """Collects metrics of a table of clients at each scrape.

    Scrapes run without capabilities, so a thread with CAP_BPF reads the table.
    """

    def __init__(self, read: Read) -> None:
        """Start the thread.

        Raises:
            LoadError: `load.no_extra`.
        """
        with extra_part():
            import prometheus_client.core as core
        self._core = core
        self._read = read
        self._reader = ThreadPoolExecutor(1, "ccp-rate-limits", _keep_one_right)
        self._reader.submit(int)  # starts the thread now, while there are capabilities to inherit

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; none if there is no table, or it cannot be read in time."""
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
            "ccplane_rate_limit_clients", "Clients in R-TCP's table, by state.", labels=["state"]
        )
        for state, count in zip(LIMIT_STATES, known["clients"], strict=True):
            if state != "no_room":
                clients.add_metric([state], count)
        yield clients
        yield self._core.GaugeMetricFamily(
            "ccplane_rate_limit_max_clients", "Maximum clients in the table.", value=known["max_clients"]
        )
        yield self._core.CounterMetricFamily(
            "ccplane_rate_limit_no_room",
            "Connections that are not limited, because the table of clients was full.",
            value=known["no_room"],
        )
        names = [*(f"{bound:g}" for bound in RATE_BOUNDS), "+Inf"]
        rates = self._core.GaugeHistogramMetricFamily(
            "ccplane_rate_limit_bytes_per_second", "Distribution of limited clients' rate limits [bytes/s]."
        )
        buckets = list(zip(names, accumulate(known["rates"]), strict=True))
        rates.add_metric([], buckets=buckets, gsum_value=known["rates_sum"])
        yield rates


@contextmanager
def collecting(read: Read) -> Iterator[RateLimitCollector]:
    """Yield a collector during a block; arguments and errors as for `RateLimitCollector`."""
    collector = RateLimitCollector(read)
    try:
        yield collector
    finally:
        collector.close()
