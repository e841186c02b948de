"""Prometheus metrics of a running agent.

    with listening(MetricsAddress.from_text("127.0.0.1:9464"), plane) as server:
        server.start(lambda: None)
        ...

Needs the extra `metrics`. A scrape reads existing counters on a separate thread; between scrapes, metrics
cost nothing.
"""

from __future__ import annotations

from ccplane.agent.metrics.address import MetricsAddress
from ccplane.agent.metrics.server import MetricsServer, listening, serving

__all__ = ["MetricsAddress", "MetricsServer", "listening", "serving"]
