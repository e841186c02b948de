"""Regimes of a scenario: who tells them apart, and whose sockets follow; plain data.

    receivers: [{host: receiver, mode: fast, detector: {delta_ms: 2}}]
    switches: [{host: sender, single: dctcp, shared: kernel/cubic}]

Flows of ccplane's algorithms need no switch: they hear what the receivers decide by themselves.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from experiments.events import ParamValue
from experiments.netlab.spec import Plain, PositiveInt

Milliseconds = Annotated[int, Meta(gt=0, le=3_600_000)]


class ReceiverAgent(Plain, frozen=True):
    """A receiver agent, `ccp telemetry receive --regime`, in a host for the whole run.

    Attributes:
        host: Where it is. A host has one at most.
        peers: Hosts that it watches; those that send flows to it, if none are named.
        mode: The paper's constants, those for faster networks, or the latter with an eye on own queues; see
            docs/regime.md.
        detector: Parameters of the detector that are not the mode's, as for `ccp telemetry receive --param`.
        window_ms: What an observation covers [ms]; the mode's, if None.
        interval_ms: Time between two signals [ms]; the mode's, if None.
        probe_ms: Time between two probes of a peer's RTT [ms]; the mode's, if None.
        ttl_ms: How long a decision is true [ms]; as `ccp telemetry receive` chooses, if None.
    """

    host: str
    peers: tuple[str, ...] = ()
    mode: Literal["paper", "fast", "own"] = "fast"
    detector: dict[str, ParamValue] = field(default_factory=dict)
    window_ms: Milliseconds | None = None
    interval_ms: Milliseconds | None = None
    probe_ms: Milliseconds | None = None
    ttl_ms: Milliseconds | None = None


class SocketSwitch(Plain, frozen=True):
    """What switches sockets of a host's ordinary programs, `ccp regime apply`, for the whole run.

    Attributes:
        host: Whose sockets. A host has one at most.
        single: Congestion control while a path is the flow's alone; named as algorithms of flows are:
            `kernel/dctcp`, or one of ccplane such as `dctcp`, which the run's agent runs.
        shared: Congestion control while others share it, and whenever nobody knows.
        single_rate_bytes_per_s: Pacing rate with `single` [bytes/s]; none, if None.
        shared_rate_bytes_per_s: Pacing rate with `shared` [bytes/s]; none, if None.
        stale_ms: For how long after the last decision stopped being true it still counts [ms]; as `ccp regime
            apply` chooses, if None.
        rules: Which sockets, as for `ccp regime apply --rule`; `{HOST}` stands for a host's IPv4 address. All
            that have a decision, if there are none.
    """

    host: str
    single: str = "dctcp"
    shared: str = "kernel/cubic"
    single_rate_bytes_per_s: PositiveInt | None = None
    shared_rate_bytes_per_s: PositiveInt | None = None
    stale_ms: Milliseconds | None = None
    rules: tuple[str, ...] = ()
