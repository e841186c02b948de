"""R-TCP: detects and respects the rate limits of clients; `rtcp_cubic` and `rtcp_bbr` for ordinary sockets.

`attached` registers these congestion controls and reports verdicts; `acks` records the detector's ACKs;
`settings` parses parameters. The BPF programs are in `native/ccp-rtcp`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ccplane.agent.features import Collects, Feature

if TYPE_CHECKING:
    from ccplane.datapath.ebpf import Capability


def _loaded(datapath: Any) -> None:
    from ccplane.agent.features.rtcp import kept

    kept.report(datapath)


@contextmanager
def _metrics(pin_dir: str) -> Iterator[Collects]:
    from ccplane.agent.features.rtcp import metrics, native

    with metrics.collecting(lambda: native.agent_summary(pin_dir, metrics.RATE_BOUNDS)) as collector:
        yield collector


def _unload() -> Sequence[str]:
    from ccplane.agent.features.rtcp import native, tables

    return ["removed the table of clients' rate limits"] if native.forget(tables.KEPT_IN) else []


def _trials(_available: Sequence[str]) -> Sequence[Capability]:
    from ccplane.agent.features.rtcp import native

    return native.trials()


FEATURE = Feature(
    commands={"research": {"rtcp": "ccplane.agent.features.rtcp.commands:app"}},
    loaded=_loaded,
    metrics=_metrics,
    unload=_unload,
    trials=_trials,
)
