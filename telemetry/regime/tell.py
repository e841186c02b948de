"""`ccp regime tell`: a decision published by hand, or by another channel's last step at the sender."""

from __future__ import annotations

import contextlib
import re
from typing import Annotated, Final

import msgspec
import typer

from broker import topics
from broker.options import BusOptions
from ccplane.base.errors import CcpError
from telemetry.bus import Bus, wall_us
from telemetry.regime.errors import RegimeError
from telemetry.schema import MAX_TTL_MS, RegimeDecision

CONNECT_S: Final = 10.0
"""How long the broker may take [s]."""
FLUSH_S: Final = 5.0
"""How long it may take to acknowledge the decision [s]."""
PREFIX: Final = "tell-"
"""Of a sender's name. The receiver's address is behind it: the broker keeps the last word on each of them."""

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")
_FAILED: Final = 1


def tell(
    regime: Annotated[str, typer.Argument(metavar="REGIME", help="SINGLE_OWNER or SHARED.")],
    peer: Annotated[str, typer.Option(help="Address of the data sender.")],
    broker: Annotated[str, typer.Option(help="mqtt://[USER[:PASSWORD]@]HOST[:PORT], or mqtts://.")],
    address: Annotated[
        str | None, typer.Option(help="Address of the receiver (all that the sender sends to).")
    ] = None,
    ttl_ms: Annotated[
        int | None, typer.Option(min=1, max=MAX_TTL_MS, help="How long it is true (60000).")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for people.")] = "told",
    sender: Annotated[
        str | None, typer.Option(help="Name on the bus (the broker's user, or tell- and the receiver).")
    ] = None,
) -> None:
    """Publish which regime a path is in, once; it ends when the broker has it."""
    try:
        way = BusOptions.from_url(broker)
        decision = _decision(regime.upper(), peer, address, reason)
        name = sender or way.user or PREFIX + _NO_NAME.sub("-", address or topics.HOST)
        publish_once(way, name, decision, ttl_ms)
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_FAILED) from None


def publish_once(way: BusOptions, sender: str, decision: RegimeDecision, ttl_ms: int | None) -> None:
    """Publish a decision, and wait until the broker has it.

    Args:
        way: Which broker.
        sender: Our name on the bus.
        decision: What to say.
        ttl_ms: How long it is true [ms]; None for what the table of topics says.

    Raises:
        BusError: `bus.not_connected`, `bus.bad_name` or `bus.tls_files`.
        RegimeError: `regime.not_told`.
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
                "regime.not_told",
                "the broker has not taken the decision",
                str(way),
                f"it does not let `{sender}` publish" if answered else f"no answer within {FLUSH_S:g} s",
                "see the broker's log; with an access list, the sender's name must be the user's",
            )


def _decision(regime: str, peer: str, address: str | None, reason: str) -> RegimeDecision:
    """Return a decision that whoever receives it will find valid."""
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
            f"no such decision: {error}",
            "REGIME, --peer, --address, --reason",
            fix="ccp regime tell SHARED --peer 10.0.0.1 --address 10.0.0.2 --broker mqtt://127.0.0.1",
        ) from None
