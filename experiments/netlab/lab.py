"""The lab: hosts and links that exist while a `with` block runs, and are gone after it, whatever happens."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Final, NoReturn, Self

from experiments.netlab import links, names, namespace, process
from experiments.netlab.errors import bad_value
from experiments.netlab.host import Belongings, Host
from experiments.netlab.links import DEFAULT_MTU_BYTES, Interface

DEFAULT_CONGESTION: Final = "reno"
"""Sockets begin with it, whatever this machine's default is. BBR would pace them, and that stays with a
socket that chooses another later. Every kernel has Reno, and allows it in every namespace."""

MAX_LINKS: Final = 254
MIN_MTU_BYTES: Final = 1280  # IPv6 needs it: RFC 8200, section 5
MAX_MTU_BYTES: Final = 65535

_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
_DEFERRED_SIGNALS: Final = (signal.SIGINT, *_ENDING_SIGNALS)
_lab_numbers: Final = itertools.count(1)


class Lab:
    """A network of namespaces on this machine.

    Use it in a `with` block. Hosts, links, processes and sockets are gone after the block: after its normal
    end, after an exception, Ctrl-C, SIGTERM and SIGHUP, and at the end of the interpreter. What a run that
    was killed outright (SIGKILL) left behind is removed when the next lab opens.

        with Lab() as lab:
            a, b = lab.add_host("a"), lab.add_host("b")
            lab.connect(a, b)
            print(a.run(["ss", "-tni"]).stdout)

    Raises:
        LabError: `lab.not_permitted` without root.
    """

    def __init__(self) -> None:
        """Make a lab without hosts."""
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
        """Names of all namespaces of the lab: of its hosts, and of what else it is made of."""
        return tuple(self._namespaces)

    def add_host(self, name: str, *, congestion: str = DEFAULT_CONGESTION, forwards: bool = False) -> Host:
        """Add a host.

        Args:
            name: Its name, unique in the lab; a-z, 0-9 and `-`.
            congestion: Congestion control of its sockets that ask for none.
            forwards: Whether it routes.

        Returns:
            The host, without links.

        Raises:
            LabError: `lab.bad_value`, `lab.not_permitted`, `lab.kernel_refused`, or as
                `Host.set_default_congestion`.
        """
        if name in self._hosts:
            raise bad_value(f"there is a host `{name}` already", f"host {name}", "choose another name")
        full = names.namespace_name(self._owner, self._number, name)
        self._namespaces.append(full)  # first: an interrupted creation is cleaned up, too
        namespace.create(full)
        host = Host(name, full, self._belongings)
        links.set_loopback_up(full)
        host.set_default_congestion(congestion)
        # The kernel would start a flow with the ssthresh of an earlier one to the same address.
        host.set_sysctl("net.ipv4.tcp_no_metrics_save", 1)
        host.set_sysctl("net.ipv6.conf.all.disable_ipv6", 0)  # containers often inherit 1
        # Nobody else is on these links: without this, IPv6 needs two seconds to find out.
        host.set_sysctl("net.ipv6.conf.all.accept_dad", 0)
        host.set_sysctl("net.ipv6.conf.default.accept_dad", 0)
        if forwards:
            host.set_sysctl("net.ipv4.ip_forward", 1)
            host.set_sysctl("net.ipv6.conf.all.forwarding", 1)
        self._hosts[name] = host
        return host

    def connect(self, a: Host, b: Host, *, mtu_bytes: int = DEFAULT_MTU_BYTES) -> tuple[Interface, Interface]:
        """Connect two hosts by a link without delay and without a limit of its rate.

        Args:
            a: A host of this lab.
            b: Another one.
            mtu_bytes: Largest IP packet [bytes].

        Returns:
            The ends, at `a` and at `b`.

        Raises:
            LabError: `lab.bad_value` or `lab.kernel_refused`.
        """
        where = f"link {a.name}--{b.name}"
        if not MIN_MTU_BYTES <= mtu_bytes <= MAX_MTU_BYTES:
            fix = f"give {MIN_MTU_BYTES} (IPv6's least) to {MAX_MTU_BYTES} bytes"
            raise bad_value(f"a link cannot have an MTU of {mtu_bytes} bytes", where, fix)
        if self._n_links == MAX_LINKS:
            raise bad_value(f"a lab has at most {MAX_LINKS} links", where, "make it smaller")
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
        # By default SIGTERM and SIGHUP end the interpreter on the spot, without leaving `with` blocks.
        # Handlers that the program has set itself are its own business.
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING_SIGNALS:
                if signal.getsignal(number) is signal.SIG_DFL:
                    signal.signal(number, _exit_on_signal)
                    self._replaced.append(number)

    def _restore_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            while self._replaced:
                signal.signal(self._replaced.pop(), signal.SIG_DFL)


@dataclass(frozen=True)
class Leftover:
    """A namespace of the lab's, wherever it came from.

    Attributes:
        namespace: Its name.
        host: The host that it is.
        pid: The process that made it.
        in_use: Whether that process still runs.
        n_processes: How many processes are inside.
    """

    namespace: str
    host: str
    pid: int
    in_use: bool
    n_processes: int


def list_namespaces() -> list[Leftover]:
    """Return all of the lab's namespaces on this machine, those of other runs included."""
    owners = {name: owner for name in namespace.names() if (owner := names.owner_of(name))}
    inside = namespace.processes_inside(set(owners)) if owners else {}
    return [
        Leftover(name, names.host_of(name), owner.pid, owner.is_alive(), len(inside.get(name, [])))
        for name, owner in owners.items()
    ]


def clean_leftovers() -> list[str]:
    """Remove what runs left behind that were killed: their namespaces, and the processes inside.

    Returns:
        The namespaces removed. Those of processes that still run are left alone.

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


def _exit_on_signal(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)  # as a shell reports it


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Hold Ctrl-C, SIGTERM and SIGHUP back until the block is done, then let them happen."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs signal handlers in the main thread only
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda n, _frame: came.append(n)) for number in _DEFERRED_SIGNALS}
    try:
        yield
    finally:
        for deferred, handler in before.items():
            # None: set by something other than Python, which cannot be put back from here
            signal.signal(deferred, signal.SIG_DFL if handler is None else handler)
        for number in dict.fromkeys(came):
            signal.raise_signal(number)
