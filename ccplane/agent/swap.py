"""Replaces the version or the algorithm of running flows: builds all new instances before it uses any.

Building runs code of the algorithm and may fail; in that case, nothing has changed. The second step only
assigns objects and writes updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from ccp_algs import Algorithm, Param, VectorAlgorithm, params_of
from ccp_algs.api import AnyAlgorithm
from ccp_algs.params import changes
from ccplane.agent.blame import blamed
from ccplane.agent.candidate import Candidate, cannot_take_over
from ccplane.agent.flow import FlowControl
from ccplane.agent.hosts import Host, Live, SingleHost, VectorHost, made
from ccplane.agent.keepalive import Keepalive
from ccplane.agent.programs import ProgramSet
from ccplane.agent.source import Version
from ccplane.base.errors import FlowGone
from ccplane.datapath.protocol import Datapath


@dataclass(frozen=True, slots=True)
class Successor:
    """A new version of a running algorithm.

    Attributes:
        algorithm: Its class.
        programs: Its installed programs; unchanged programs are shared with the previous version.
        version: Its source.
    """

    algorithm: AnyAlgorithm
    programs: ProgramSet
    version: Version


def successor(candidate: Candidate, name: str, datapath: Datapath, host: Host | None) -> Successor:
    """Install the programs of a checked version.

    Args:
        candidate: The version.
        name: Name of the algorithm.
        datapath: Where to install the programs.
        host: The running algorithm that it may replace; unchanged programs are shared with it.

    Raises:
        VerifierError: If the kernel refuses a program; none stays installed then.
        LoadError: `load.extension`, if the datapath lacks an extension that the version uses.
    """
    programs = ProgramSet(
        name,
        datapath,
        candidate.programs,
        next(iter(candidate.programs)),
        None if host is None else host.programs,
        extensions=candidate.algorithm.extensions,
    )
    return Successor(candidate.algorithm, programs, candidate.version)


@dataclass(slots=True)
class _Built:
    """A flow's new objects, not yet in use."""

    live: Live
    flow: FlowControl
    instance: Algorithm | None


def reload(
    host: SingleHost | VectorHost,
    lives: Sequence[Live],
    after: Successor,
    keepalive: Keepalive,
    *,
    fresh: bool = False,
) -> int:
    """Switch all flows of an algorithm to a new version; flows that had failed start afresh.

    Args:
        host: The running algorithm.
        lives: All its flows.
        after: The new version.
        keepalive: Keepalives.
        fresh: Whether all flows start afresh, because the previous version's state is not trusted.

    Returns:
        Number of flows.

    Raises:
        CcpError: What the new version raises, with file and line. Nothing has changed then, and the new
            version's programs are removed.
    """
    with _abandoned(after.programs), blamed(after.version.file, cannot_take_over):
        carry_params(host.algorithm, after.algorithm)
        if isinstance(host, VectorHost):
            flows = {live.flow.info.flow_id: host.flow(live.flow.info, after.programs) for live in lives}
            instance = _new_vector(host, lives, after, flows, keepalive, fresh)
            built = [_Built(live, flows[live.flow.info.flow_id], None) for live in lives]
        else:
            shared = _shared_params(host.algorithm, after.algorithm)
            built = [_new_version(host, live, after, shared, fresh) for live in keepalive.between(lives)]
    before, host.programs = host.programs, after.programs
    host.algorithm, host.version = after.algorithm, after.version
    if isinstance(host, VectorHost):
        host.replace(instance, flows)
    _use(built, keepalive)
    after.programs.supersede(before)
    return len(built)


def _new_version(
    host: SingleHost, live: Live, after: Successor, shared: Mapping[str, Param[Any]], fresh: bool
) -> _Built:
    info = live.flow.info
    flow = host.flow(info, after.programs)
    instance = cast("type[Algorithm]", after.algorithm)()
    instance.flow = flow
    old = None if live.failed else live.instance
    if old is not None:
        for name, parameter in shared.items():
            if name in vars(old):
                vars(instance)[name] = parameter.check(vars(old)[name])
    instance.on_create(info)
    if old is not None and not fresh:
        flow.continue_from(live.flow)
        instance.on_reload(old)
    return _Built(live, flow, instance)


def _new_vector(
    host: VectorHost,
    lives: Sequence[Live],
    after: Successor,
    flows: Mapping[int, FlowControl],
    keepalive: Keepalive,
    fresh: bool,
) -> VectorAlgorithm | None:
    if not lives:
        return None
    instance = made(after.algorithm, flows)
    for live in keepalive.between(lives):
        if not live.failed and not fresh:
            instance.on_create(live.flow.info)
            flows[live.flow.info.flow_id].continue_from(live.flow)
    if host.instance is not None and not fresh:
        instance.on_reload(host.instance)
    for live in keepalive.between(lives):
        if live.failed or fresh:
            instance.on_create(live.flow.info)
    return instance


@contextmanager
def _abandoned(programs: ProgramSet) -> Iterator[None]:
    """Remove the new version's programs if the block raises."""
    try:
        yield
    except BaseException:
        programs.abandon()
        raise


def _shared_params(before: AnyAlgorithm, after: AnyAlgorithm) -> dict[str, Param[Any]]:
    """Return the new version's parameters that the previous version also has."""
    old = params_of(before)
    return {name: parameter for name, parameter in params_of(after).items() if name in old}


def carry_params(before: AnyAlgorithm, after: AnyAlgorithm) -> None:
    """Copy class-wide parameter settings from the previous version to the new one."""
    old = params_of(before)
    for name, parameter in _shared_params(before, after).items():
        if old[name].is_set(before):
            parameter.set_for_class(after, getattr(before, name))


def _use(built: Sequence[_Built], keepalive: Keepalive) -> None:
    """Switch flows to their new objects."""
    for one in keepalive.between(built):
        live, before = one.live, one.live.flow
        live.flow, live.instance, live.failed = one.flow, one.instance, False
        live.failure = None
        live.on_report = None if one.instance is None else one.instance.on_report
        live.params_at = changes()
        with suppress(FlowGone):  # its close event follows
            one.flow.open(before)
        before.retire()


def switch(
    target: SingleHost | VectorHost, lives: Sequence[Live], keepalive: Keepalive
) -> list[tuple[Live, Any, Algorithm | None]]:
    """Move flows to another running algorithm, which starts them as new flows.

    Returns:
        The flows with their former host and instance, whose `on_close` the caller must call.

    Raises:
        CcpError: What the algorithm raises; nothing has changed then.
    """
    with blamed(target.version.file, cannot_take_over):
        if isinstance(target, VectorHost):
            built = _joined(target, keepalive.between(lives))
        else:
            built = [_fresh(target, live) for live in keepalive.between(lives)]
    former = [(one.live, one.live.host, None if one.live.failed else one.live.instance) for one in built]
    for one in built:
        if one.live.failed:
            one.live.host.forget(one.live.flow.info.flow_id)
        one.live.host, one.live.last_report = target, None
    _use(built, keepalive)
    return former


def _fresh(target: SingleHost, live: Live) -> _Built:
    made = target.live(live.flow.info)
    instance = cast("type[Algorithm]", target.algorithm)()
    made.instance = instance
    instance.flow = made.flow
    if target.settle is not None:
        target.settle(made)
    instance.on_create(live.flow.info)
    return _Built(live, made.flow, instance)


def _joined(target: VectorHost, lives: Iterable[Live]) -> list[_Built]:
    built: list[_Built] = []
    try:
        for live in lives:
            flow = target.live(live.flow.info).flow
            target.join(flow)
            built.append(_Built(live, flow, None))
    except BaseException:
        for one in built:
            target.leave(one.flow.info.flow_id)
        raise
    return built
