"""Common topologies, and the validation of topologies.

Any other topology is a `spec.Topology` with its hosts, routers and links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec

from ccplane.base.errors import Collector
from ccplane.base.names import close_names
from experiments.netlab import inband, names
from experiments.netlab.errors import LabError, bad_value
from experiments.netlab.spec import Direction, Link, Pattern, Topology

MAX_HOSTS: Final = 65_000
"""Hosts get their addresses from a /16."""

_PLAIN: Final = Direction()
_T = TypeVar("_T")


def point_to_point(
    forward: Direction, backward: Direction | None = None, *, mtu_bytes: int = 1500
) -> Topology:
    """Return `sender -- receiver`, with one link called `link`.

    Args:
        forward: Direction from the sender to the receiver.
        backward: The opposite direction; None as in `Link.backward`.
        mtu_bytes: Maximum IP packet [bytes].
    """
    link = Link(name="link", a="sender", b="receiver", forward=forward, backward=backward)
    return Topology(hosts=("sender", "receiver"), links=(link,), mtu_bytes=mtu_bytes)


def dumbbell(
    pairs: int,
    bottleneck: Direction,
    *,
    access: Direction | Sequence[Direction] = _PLAIN,
    backward: Direction | None = None,
    mtu_bytes: int = 1500,
) -> Topology:
    r"""Return senders `s1`.. and receivers `r1`.. on the two sides of one link called `bottleneck`.

        s1 -- left ==== right -- r1
        s2 --/              \-- r2

    Args:
        pairs: Number of senders and receivers.
        bottleneck: Direction from the router `left` to the router `right`.
        access: The senders' links, `access-s1`..: one for all, or one for each, for instance with different
            delays. The receivers' links, `access-r1`.., have neither rate limit nor delay.
        backward: The bottleneck's opposite direction; None as in `Link.backward`.
        mtu_bytes: Maximum IP packet [bytes].

    Raises:
        LabError: `lab.bad_value`, for less than one pair, or a wrong number of `access` directions.
    """
    own = _one_each(access, pairs, "pairs")
    links = [Link(name="bottleneck", a="left", b="right", forward=bottleneck, backward=backward)]
    links += [Link(name=f"access-s{n}", a=f"s{n}", b="left", forward=d) for n, d in enumerate(own, 1)]
    links += [Link(name=f"access-r{n}", a="right", b=f"r{n}") for n in range(1, pairs + 1)]
    hosts = [f"{side}{n}" for side in "sr" for n in range(1, pairs + 1)]
    return Topology(hosts=tuple(hosts), links=tuple(links), routers=("left", "right"), mtu_bytes=mtu_bytes)


def parking_lot(
    hops: int,
    bottleneck: Direction | Sequence[Direction],
    *,
    access: Direction = _PLAIN,
    mtu_bytes: int = 1500,
) -> Topology:
    r"""Return a row of bottlenecks: one pair of hosts crosses all of them, another pair each single one.

        sender -- hop0 ==== hop1 ==== hop2 -- receiver
                 s1 /     r1 | s2     \ r2

    Args:
        hops: Number of bottlenecks, `bottleneck1`..; `s1` and `r1` are the hosts at the ends of the first.
        bottleneck: One for all, or one for each.
        access: The links of all senders, `access-sender` and `access-s1`..; the receivers' links have neither
            rate limit nor delay.
        mtu_bytes: Maximum IP packet [bytes].

    Raises:
        LabError: `lab.bad_value`, for less than one hop, or a wrong number of `bottleneck` directions.
    """
    each = _one_each(bottleneck, hops, "hops")
    links = [
        Link(name=f"bottleneck{n}", a=f"hop{n - 1}", b=f"hop{n}", forward=d) for n, d in enumerate(each, 1)
    ]
    ends = [("sender", "receiver", 0, hops), *((f"s{n}", f"r{n}", n - 1, n) for n in range(1, hops + 1))]
    for sender, receiver, first, last in ends:
        links.append(Link(name=f"access-{sender}", a=sender, b=f"hop{first}", forward=access))
        links.append(Link(name=f"access-{receiver}", a=f"hop{last}", b=receiver))
    return Topology(
        hosts=tuple(name for sender, receiver, _, _ in ends for name in (sender, receiver)),
        links=tuple(links),
        routers=tuple(f"hop{n}" for n in range(hops + 1)),
        mtu_bytes=mtu_bytes,
    )


def _one_each(given: Direction | Sequence[Direction], count: int, field: str) -> list[Direction]:
    if count < 1:
        raise bad_value(f"invalid number of {field}: {count}", field, "give at least 1")
    each = [given] * count if isinstance(given, Direction) else list(given)
    if len(each) != count:
        raise bad_value(
            f"{len(each)} directions for {count} {field}", field, "give one for all, or one for each"
        )
    return each


def check(topology: Topology) -> None:
    """Check whether a topology can be built.

    Raises:
        LabError: `lab.bad_value`; `where` is the field, such as `links[2].a`.
        Several: If more than one field is wrong.
    """
    well_typed(msgspec.to_builtins(topology), Topology)
    collector = Collector()
    for error in _problems(topology):
        with collector.check():
            raise error
    collector.finish()
    _check_connected(topology)


def well_typed(data: object, kind: type[_T], where: str = "") -> _T:
    """Convert plain data to one of the types of `spec`.

    Raises:
        LabError: `lab.bad_value`; `where` is the field, such as `links[2].forward.delay_us`.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        field = ".".join(part for part in (where, path.rstrip("`").lstrip(".")) if part)
        unknown = message.partition("unknown field `")[2].rstrip("`")
        fix = "see `experiments/netlab/spec.py` for the types of the fields"
        if unknown and not path:
            known = [one.name for one in msgspec.structs.fields(cast(Any, kind))]
            fix = close_names(unknown, known, "field")
        raise bad_value(message, field or kind.__name__, fix) from error


def _problems(topology: Topology) -> Iterator[LabError]:
    nodes = [(f"hosts[{i}]", name) for i, name in enumerate(topology.hosts)]
    nodes += [(f"routers[{i}]", name) for i, name in enumerate(topology.routers)]
    if not 2 <= len(topology.hosts) <= MAX_HOSTS:
        yield bad_value(
            f"invalid number of hosts: {len(topology.hosts)}", "hosts", f"give 2 to {MAX_HOSTS} hosts"
        )
    yield from _clashes(nodes, "node")
    yield from _clashes([(f"links[{i}].name", link.name) for i, link in enumerate(topology.links)], "link")
    for where, name in nodes:
        if not names.is_host_name(name):
            yield bad_value(f"invalid host name: `{name}`", where, "end it with a letter or digit")
    known = {name for _, name in nodes}
    for i, link in enumerate(topology.links):
        for end in ("a", "b"):
            node = getattr(link, end)
            if node not in known:
                where = f"links[{i}].{end}"
                yield bad_value(f"unknown node `{node}`", where, close_names(node, known, "node"))
        if link.a == link.b:
            yield bad_value(
                f"link `{link.name}` connects `{link.a}` to itself", f"links[{i}].b", "name two nodes"
            )
        for side in ("forward", "backward"):
            if (direction := getattr(link, side)) is not None:
                yield from direction_problems(direction, f"links[{i}].{side}", topology.mtu_bytes)
    ends = Counter(node for link in topology.links for node in (link.a, link.b))
    for i, host in enumerate(topology.hosts):
        if ends[host] != 1:
            yield bad_value(
                f"host `{host}` has {ends[host]} links",
                f"hosts[{i}]",
                "give the host one link; a node with several links is a router",
            )
    for i, one in enumerate(topology.misbehaving):
        if one.host not in topology.hosts:
            fix = close_names(one.host, topology.hosts, "host")
            yield bad_value(f"unknown host `{one.host}`", f"misbehaving[{i}].host", fix)
    for host, times in Counter(one.host for one in topology.misbehaving).items():
        if times > 1:
            yield bad_value(f"`{host}` is listed {times} times", "misbehaving", "list it once")
    yield from inband.problems(topology)


def _clashes(named: list[tuple[str, str]], what: str) -> Iterator[LabError]:
    first: dict[str, str] = {}
    for where, name in named:
        if name in first:
            yield bad_value(f"`{name}` is already the {what} at {first[name]}", where, "choose another name")
        first.setdefault(name, where)


def direction_problems(direction: Direction, where: str, mtu_bytes: int) -> Iterator[LabError]:
    """Yield errors in one direction of a link, except wrong types of fields."""
    bucket, tunnel = direction.token_bucket, direction.tunnel
    largest_bytes = mtu_bytes
    if tunnel is not None:
        largest_bytes = min(mtu_bytes, tunnel.mtu_bytes or mtu_bytes) + tunnel.overhead_bytes
    if bucket is not None and bucket.bucket_bytes < largest_bytes:
        yield bad_value(
            f"a bucket of {bucket.bucket_bytes} bytes never lets a packet of {largest_bytes} bytes pass",
            f"{where}.token_bucket.bucket_bytes",
            f"give at least {largest_bytes}",
        )
    loss = direction.loss
    if isinstance(loss, Pattern):
        period = loss.repeat_every_pkts
        top = float("inf") if period is None else period
        ascending = all(a < b for a, b in zip(loss.drop, loss.drop[1:], strict=False))
        if not ascending or any(not 0 <= number < top for number in loss.drop):
            below = "" if period is None else f", below {period}"
            yield bad_value(
                "numbers of packets to drop are not in order or out of range",
                f"{where}.loss.drop",
                f"give ascending numbers from 0{below}",
            )


def _check_connected(topology: Topology) -> None:
    neighbours: dict[str, list[str]] = {node: [] for node in (*topology.hosts, *topology.routers)}
    for link in topology.links:
        neighbours[link.a].append(link.b)
        neighbours[link.b].append(link.a)
    reached, frontier = {topology.hosts[0]}, [topology.hosts[0]]
    while frontier:
        new = [node for node in neighbours[frontier.pop()] if node not in reached]
        reached.update(new)
        frontier.extend(new)
    for i, host in enumerate(topology.hosts):
        if host not in reached:
            raise bad_value(
                f"no links connect `{topology.hosts[0]}` to `{host}`",
                f"hosts[{i}]",
                "connect the hosts through links and routers",
            )
