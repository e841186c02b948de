"""`ccp regime publish`: publish one decision, manually or from another channel."""

from __future__ import annotations

import contextlib
import re
from typing import Annotated, Final

import msgspec
import typer

from broker import topics
from broker.options import BusOptions
from ccplane.base import options
from ccplane.base.errors import CcpError
from telemetry.bus import Bus, wall_us
from telemetry.regime.errors import RegimeError
from telemetry.schema import MAX_TTL_MS, RegimeDecision

CONNECT_S: Final = 10.0
"""Time limit for the connection [s]."""
FLUSH_S: Final = 5.0
"""Time limit for the acknowledgement [s]."""
PREFIX: Final = "publish-"
"""Precedes the receiver's address in the sender name, as the broker retains one decision per sender."""

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")
_FAILED: Final = 1


def emit(
    regime: Annotated[str, typer.Argument(metavar="REGIME", help="SINGLE_OWNER or SHARED.")],
    peer: Annotated[str, typer.Option(metavar="ADDRESS", help="Address of the data sender.")],
    broker: Annotated[str, options.broker()],
    address: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address of the receiver.", show_default="all receivers"),
    ] = None,
    ttl_ms: Annotated[
        int | None,
        options.duration(
            "--ttl",
            unit="ms",
            help="Lifetime of the decision",
            min=1,
            max=MAX_TTL_MS,
            whole=True,
            show_default="60s",
        ),
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Human-readable reason.")] = "manual",
    sender: Annotated[
        str | None, options.sender(f"the broker's user, or {PREFIX}ADDRESS", panel=options.ADVANCED)
    ] = None,
) -> None:
    """Publish once whether a path is shared, and exit when the broker has acknowledged it."""
    try:
        place = BusOptions.from_url(broker)
        decision = _decision(regime.upper(), peer, address, reason)
        name = sender or place.user or PREFIX + _NO_NAME.sub("-", address or topics.HOST)
        publish_once(place, name, decision, ttl_ms)
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_FAILED) from None


def publish_once(way: BusOptions, sender: str, decision: RegimeDecision, ttl_ms: int | None) -> None:
    """Publish a decision, and wait until the broker has acknowledged it.

    Args:
        way: The broker.
        sender: Name on the bus.
        decision: The decision.
        ttl_ms: Lifetime [ms]; None for the default of its topic.

    Raises:
        BusError: `bus.not_connected`, `bus.bad_name` or `bus.tls_files`.
        RegimeError: `regime.not_reported`.
    """
    bus = Bus(way, sender=sender)
    with contextlib.ExitStack() as stack:
        stack.callback(bus.stop)
        bus.start()
        bus.wait_connected(CONNECT_S)
        bus.publish(decision, ttl_ms=ttl_ms)
        answered = bus.flush(FLUSH_S)
        if not answered or bus.counters.connection.refused:
            raise RegimeError(
                "regime.not_reported",
                "the broker did not accept the decision",
                str(way),
                f"the broker does not allow `{sender}` to publish"
                if answered
                else f"no answer within {FLUSH_S:g} s",
                "see the broker's log; with an access list, the sender's name must equal the user's name",
            )


def _decision(regime: str, peer: str, address: str | None, reason: str) -> RegimeDecision:
    """Return a valid decision."""
    fields = {
        "regime": regime,
        "peer": peer,
        "address": address,
        "since_wall_us": wall_us(),
        "reason": reason,
    }
    try:
        return msgspec.convert(fields, RegimeDecision)
    except msgspec.ValidationError as error:
        raise RegimeError(
            "regime.bad_option",
            f"this is not a valid decision: {error}",
            "REGIME, --peer, --address, --reason",
            fix="ccp regime publish SHARED --peer 10.0.0.1 --address 10.0.0.2 --broker mqtt://127.0.0.1",
        ) from None
