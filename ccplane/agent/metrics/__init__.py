"""What a running agent tells Prometheus.

    with listening(MetricsAddress.from_text("127.0.0.1:9464"), plane) as server:
        server.start(lambda: None)
        ...

Needs the extra `metrics`. Nothing is counted for it that is not counted anyway: a scrape reads what is there,
on a thread of its own.
"""

from __future__ import annotations

from ccplane.agent.metrics.address import MetricsAddress
from ccplane.agent.metrics.server import MetricsServer, listening, serving

__all__ = ["MetricsAddress", "MetricsServer", "listening", "serving"]
