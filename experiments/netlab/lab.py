"""The lab: hosts and links that exist for a `with` block, and are always removed after it."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from ccplane.base import ending
from experiments.netlab import links, names, namespace, process
from experiments.netlab.errors import bad_value
from experiments.netlab.host import Belongings, Host
from experiments.netlab.links import DEFAULT_MTU_BYTES, Interface

DEFAULT_CONGESTION: Final = "reno"
"""Initial congestion control of sockets, whatever the machine's default is. BBR would enable pacing, which a
socket keeps when it chooses another congestion control later. Every kernel has Reno, and allows it in every
namespace."""

MAX_LINKS: Final = 254
MIN_MTU_BYTES: Final = 1280  # IPv6 needs it: RFC 8200, section 5
MAX_MTU_BYTES: Final = 65535

_DEFERRED_SIGNALS: Final = (signal.SIGINT, *ending.SIGNALS)
_lab_numbers: Final = itertools.count(1)


class Lab:
    """A network of namespaces on this machine.

    Use it in a `with` block. Hosts, links, processes and sockets are removed at the end of the block: on
    normal exit, after an exception, Ctrl-C, SIGTERM and SIGHUP, and when the interpreter exits. Leftovers of
    a run killed by SIGKILL are removed when the next lab opens.

        with Lab() as lab:
            a, b = lab.add_host("a"), lab.add_host("b")
            lab.connect(a, b)
            print(a.run(["ss", "-tni"]).stdout)

    Raises:
        LabError: `lab.not_permitted` without root.
    """

    def __init__(self) -> None:
        self._owner = names.this_process()
        self._number = next(_lab_numbers)
        self._belongings = Belongings()
        self._namespaces: list[str] = []
        self._hosts: dict[str, Host] = {}
        self._n_links = 0
        self._replaced: list[signal.Signals] = []

    def __enter__(self) -> Self:
        atexit.register(self.close)
        self._make_signals_exceptions()
        try:
            clean_leftovers()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Names of all namespaces of the lab."""
        return tuple(self._namespaces)

    def add_host(self, name: str, *, congestion: str = DEFAULT_CONGESTION, forwards: bool = False) -> Host:
        """Add a host.

        Args:
            name: Unique name in the lab; a-z, 0-9 and `-`.
            congestion: Congestion control of sockets that choose none.
            forwards: Whether the host routes.

        Returns:
            The host, without links.

        Raises:
            LabError: `lab.bad_value`, `lab.not_permitted`, `lab.kernel_refused`, or as in
                `Host.set_default_congestion`.
        """
        if name in self._hosts:
            raise bad_value(f"host `{name}` already exists", f"host {name}", "choose another name")
        full = names.namespace_name(self._owner, self._number, name)
        self._namespaces.append(full)  # before the creation, to clean up if that is interrupted
        namespace.create(full)
        host = Host(name, full, self._belongings)
        links.set_loopback_up(full)
        host.set_default_congestion(congestion)
        # Otherwise a flow starts with the ssthresh of an earlier flow to the same address.
        host.set_sysctl("net.ipv4.tcp_no_metrics_save", 1)
        links.write_ipv6_sysctl(full, "conf.all.disable_ipv6", 0)  # containers often inherit 1
        # Skip duplicate address detection, which takes two seconds.
        links.write_ipv6_sysctl(full, "conf.all.accept_dad", 0)
        links.write_ipv6_sysctl(full, "conf.default.accept_dad", 0)
        if forwards:
            host.set_sysctl("net.ipv4.ip_forward", 1)
            links.write_ipv6_sysctl(full, "conf.all.forwarding", 1)
        self._hosts[name] = host
        return host

    def connect(self, a: Host, b: Host, *, mtu_bytes: int = DEFAULT_MTU_BYTES) -> tuple[Interface, Interface]:
        """Connect two hosts of this lab by a link with neither delay nor rate limit.

        Returns:
            The ends, at `a` and at `b`.

        Raises:
            LabError: `lab.bad_value` or `lab.kernel_refused`.
        """
        where = f"link {a.name}--{b.name}"
        if not MIN_MTU_BYTES <= mtu_bytes <= MAX_MTU_BYTES:
            fix = f"give {MIN_MTU_BYTES} (minimum of IPv6) to {MAX_MTU_BYTES} bytes"
            raise bad_value(f"invalid MTU: {mtu_bytes} bytes", where, fix)
        if self._n_links == MAX_LINKS:
            raise bad_value(f"a lab has at most {MAX_LINKS} links", where, "use fewer links")
        self._n_links += 1
        end_a, end_b = links.make_veth(
            a.namespace,
            f"eth{len(a.interfaces)}",
            b.namespace,
            f"eth{len(b.interfaces)}",
            link_number=self._n_links,
            mtu_bytes=mtu_bytes,
        )
        a.interfaces.append(end_a)
        b.interfaces.append(end_b)
        return end_a, end_b

    def close(self) -> None:
        """Remove everything; may be called again."""
        if os.getpid() != self._owner.pid:
            return  # in a forked child: the network is the parent's
        try:
            with _signals_deferred():
                self._belongings.release()
                _remove_namespaces(set(self._namespaces))
                self._namespaces.clear()
                self._hosts.clear()
                atexit.unregister(self.close)
        finally:
            self._restore_signals()

    def _make_signals_exceptions(self) -> None:
        # By default SIGTERM and SIGHUP end the interpreter immediately, without leaving `with` blocks.
        # Handlers set by the program stay.
        if threading.current_thread() is threading.main_thread():
            self._replaced += ending.as_exceptions()

    def _restore_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            while self._replaced:
                signal.signal(self._replaced.pop(), signal.SIG_DFL)


@dataclass(frozen=True)
class Leftover:
    """A namespace of any lab on this machine.

    Attributes:
        namespace: Name of the namespace.
        host: Name of the host.
        pid: The process that created it.
        in_use: Whether that process still runs.
        n_processes: Number of processes inside.
    """

    namespace: str
    host: str
    pid: int
    in_use: bool
    n_processes: int


def list_namespaces() -> list[Leftover]:
    """Return the namespaces of all labs on this machine, including other runs'."""
    owners = {name: owner for name in namespace.names() if (owner := names.owner_of(name))}
    inside = namespace.processes_inside(set(owners)) if owners else {}
    return [
        Leftover(name, names.host_of(name), owner.pid, owner.is_alive(), len(inside.get(name, [])))
        for name, owner in owners.items()
    ]


def clean_leftovers() -> list[str]:
    """Remove the namespaces of killed runs, and the processes inside.

    Returns:
        The removed namespaces. Namespaces of running processes are left alone.

    Raises:
        LabError: `lab.not_permitted` or `lab.timeout`.
    """
    dead = {name for name in namespace.names() if (owner := names.owner_of(name)) and not owner.is_alive()}
    _remove_namespaces(dead)
    return sorted(dead)


def _remove_namespaces(doomed: set[str]) -> None:
    if not doomed:
        return
    for pids in namespace.processes_inside(doomed).values():
        process.kill_numbers(pids)
    for name in doomed:
        namespace.remove(name)


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer Ctrl-C, SIGTERM and SIGHUP to the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs signal handlers in the main thread only
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda n, _frame: came.append(n)) for number in _DEFERRED_SIGNALS}
    try:
        yield
    finally:
        for deferred, handler in before.items():
            # None: not set by Python, so it cannot be restored from here
            signal.signal(deferred, signal.SIG_DFL if handler is None else handler)
        for number in dict.fromkeys(came):
            signal.raise_signal(number)
