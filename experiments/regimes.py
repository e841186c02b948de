"""Receiver agents and socket switches of a scenario, as plain data.

    receivers: [{host: receiver, mode: fast, detector: {delta_ms: 2}}]
    switches: [{host: sender, single: dctcp, shared: kernel/cubic}]

Flows of ccplane's algorithms need no switch: they receive the receivers' decisions themselves.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from experiments.events import ParamValue
from experiments.netlab.spec import Plain, PositiveInt

Milliseconds = Annotated[int, Meta(gt=0, le=3_600_000)]


class ReceiverAgent(Plain, frozen=True):
    """A receiver agent, `ccp telemetry receive --regime`, on a host for the whole run.

    Attributes:
        host: Its host, which has no other receiver agent.
        peers: Hosts to watch; if empty, those that send flows to its host.
        mode: The paper's constants, those for faster networks, or the latter with detection of own queues;
            see docs/r-hybrid.md.
        detector: Parameters of the detector that differ from the mode's, as for `ccp telemetry receive
            --param`.
        window_ms: Time that an observation covers [ms]; None for the mode's.
        interval_ms: Time between two signals [ms]; None for the mode's.
        probe_ms: Time between two RTT probes of a peer [ms]; None for the mode's.
        ttl_ms: Lifetime of a decision [ms]; None for the default of `ccp telemetry receive`.
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
    """A switch for sockets of ordinary programs on a host, `ccp regime apply`, for the whole run.

    Attributes:
        host: Its host, which has no other switch.
        single: Congestion control while the flow has the path alone; named like a flow's algorithm:
            `kernel/dctcp`, or an algorithm of ccplane such as `dctcp`, which the run's agent runs.
        shared: Congestion control while the path is shared or its state is unknown.
        single_rate_bytes_per_s: Pacing rate with `single` [bytes/s]; None for no pacing.
        shared_rate_bytes_per_s: Pacing rate with `shared` [bytes/s]; None for no pacing.
        stale_ms: How long an expired decision still counts [ms]; None for the default of `ccp regime apply`.
        rules: Sockets to switch, as for `ccp regime apply --rule`; `{HOST}` is replaced by a host's IPv4
            address. If empty, all sockets whose path has a decision.
    """

    host: str
    single: str = "dctcp"
    shared: str = "kernel/cubic"
    single_rate_bytes_per_s: PositiveInt | None = None
    shared_rate_bytes_per_s: PositiveInt | None = None
    stale_ms: Milliseconds | None = None
    rules: tuple[str, ...] = ()
