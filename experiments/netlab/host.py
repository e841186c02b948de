"""A host of the lab: a network namespace and its processes."""

from __future__ import annotations

import errno
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from experiments.netlab import links, namespace, process
from experiments.netlab.errors import LabError, bad_value
from experiments.netlab.links import Interface
from experiments.netlab.sockets import (
    allowed_congestion_controls,
    available_congestion_controls,
    no_congestion_control,
    set_congestion,
)
from experiments.netlab.spec import Family

_FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}
_T = TypeVar("_T")


@dataclass
class Belongings:
    """Processes and sockets that a lab has to end and close.

    Attributes:
        processes: Processes started in its hosts; exited ones are dropped from time to time.
        sockets: Sockets opened in its hosts, likewise; an open socket would keep its namespace alive.
        closed: Whether the lab is closed, so that nothing new can be started.
    """

    processes: list[process.Process] = field(default_factory=list)
    sockets: list[socket.socket] = field(default_factory=list)
    closed: bool = False

    def release(self) -> None:
        """End the processes and close the sockets."""
        self.closed = True
        process.end(self.processes)
        self.processes.clear()
        for sock in self.sockets:
            sock.close()
        self.sockets.clear()


class Host:
    """One host.

    Attributes:
        Attributes:
            name: Name in the lab, such as `sender`.
            namespace: Network namespace; `ip netns exec NAMESPACE sh` opens a shell in it.
            interfaces: The host's ends of links, in the order of their creation.
    """

    def __init__(self, name: str, namespace: str, belongings: Belongings) -> None:
        """Describe a host whose namespace exists; `Lab.add_host` creates both."""
        self.name = name
        self.namespace = namespace
        self.interfaces: list[Interface] = []
        self._belongings = belongings
        self._next_port = 5201  # iperf3's own

    def __repr__(self) -> str:
        return f"Host({self.name!r}, namespace={self.namespace!r})"

    @property
    def ipv4(self) -> str:
        """IPv4 address on the first link."""
        return self._first.ipv4

    @property
    def ipv6(self) -> str:
        """IPv6 address on the first link."""
        return self._first.ipv6

    @property
    def mtu_bytes(self) -> int:
        """Largest IP packet on the first link [bytes]."""
        return self._first.mtu_bytes

    def address(self, family: Family) -> str:
        """Return the IPv4 or IPv6 address on the first link.

        Raises:
            LabError: `lab.no_ipv6`.
        """
        if family == "ipv4":
            return self.ipv4
        self._opened(
            family
        ).close()  # raises if there are none; every namespace of a kernel has the same families
        return self.ipv6

    @property
    def _first(self) -> Interface:
        if not self.interfaces:
            raise bad_value(
                f"{self.name} has no address",
                f"host {self.name}",
                "connect the host first: lab.connect(a, b)",
            )
        return self.interfaces[0]

    @property
    def enter(self) -> list[str]:
        """Command prefix that runs a command in this host."""
        return ["nsenter", f"--net={namespace.path_of(self.namespace)}", "--"]

    def new_port(self) -> int:
        """Return an unused port for a server in this host."""
        self._next_port += 1
        return self._next_port - 1

    def popen(
        self,
        args: Sequence[str],
        *,
        stdin: process.Stream = subprocess.DEVNULL,
        stdout: process.Stream = subprocess.DEVNULL,
        stderr: process.Stream = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> process.Process:
        """Start a command in this host; the lab ends the command when the lab closes, at the latest.

        Only the network namespace changes: unlike under `ip netns exec`, /sys is the machine's, including the
        BPF file system and the control groups.

        Args:
            args: Program and arguments; no shell.
            stdin: As in `subprocess.Popen`, text mode.
            stdout: Likewise.
            stderr: Likewise.
            env: The environment; None for that of this process.
            pass_fds: Open files that the command inherits under the same numbers.

        Returns:
            The process; its pid is the command's.

        Raises:
            LabError: `lab.no_command` or `lab.closed`.
        """
        self._must_be_open()
        running = process.start(
            [*self.enter, process.which(args[0], self._at(args)), *args[1:]],
            where=self._at(args),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=dict(env) if env is not None else None,
            pass_fds=pass_fds,
        )
        owned = self._belongings.processes
        owned[:] = [other for other in owned if other.poll() is None]
        owned.append(running)
        return running

    def run(
        self,
        args: Sequence[str],
        *,
        timeout_s: float = 30.0,
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in this host, and wait for its end.

        Args:
            args: Program and arguments; no shell.
            timeout_s: Time limit [s], after which the command and its children are killed.
            check: Whether an exit status other than 0 is an error.
            env: The environment; None for that of this process.

        Returns:
            Status and output, as text.

        Raises:
            LabError: `lab.timeout`, `lab.command_failed`, `lab.no_command` or `lab.closed`.
        """
        pipe = subprocess.PIPE
        running = self.popen(args, stdout=pipe, stderr=pipe, env=env)
        return process.finish(running, timeout_s=timeout_s, where=self._at(args), check=check)

    def call(self, function: Callable[[], _T]) -> _T:
        """Run a function in this host, in a separate thread, and return its result.

        Sockets and files under /proc/sys/net that it opens belong to the host.

        Raises:
            LabError: `lab.closed`, or the function's exception.
        """
        self._must_be_open()
        return namespace.call_inside(self.namespace, function)

    def _opened(self, family: Family) -> socket.socket:
        try:
            return socket.socket(_FAMILIES[family], socket.SOCK_STREAM)
        except OSError as error:
            if error.errno != errno.EAFNOSUPPORT:
                raise
            raise LabError(
                "lab.no_ipv6",
                f"cannot use IPv6 in {self.name}",
                f"host {self.name}",
                "the kernel was built without IPv6, or started with ipv6.disable=1",
                "use IPv4 (`family: ipv4`), or start the kernel with IPv6",
            ) from error

    def tcp_socket(self, family: Family = "ipv4", congestion: str | None = None) -> socket.socket:
        """Open a TCP socket in this host.

        Args:
            family: Address family.
            congestion: Congestion control, such as `ccp`; None for the host's default.

        Returns:
            The socket. It is usable from everywhere, and is closed at the latest when the lab closes.

        Raises:
            LabError: `lab.no_congestion_control`, `lab.no_ipv6` or `lab.closed`.
        """
        sock = self.call(lambda: self._opened(family))
        owned = self._belongings.sockets
        owned[:] = [other for other in owned if other.fileno() >= 0]
        owned.append(sock)
        if congestion is not None:
            try:
                set_congestion(sock, congestion)
            except BaseException:
                sock.close()
                raise
        return sock

    def set_sysctl(self, name: str, value: str | int) -> None:
        """Set a kernel parameter of this host, such as `net.ipv4.tcp_ecn`.

        Raises:
            LabError: `lab.bad_value` or `lab.closed`.
        """
        self._must_be_open()
        links.write_sysctl(self.namespace, name, value)

    def set_default_congestion(self, name: str) -> None:
        """Set the congestion control of this host's sockets that do not choose one.

        Only the machine's allowed congestion controls can be defaults; a socket can choose any.

        Raises:
            LabError: `lab.no_congestion_control`, `lab.not_permitted` or `lab.closed`.
        """
        if name not in available_congestion_controls():
            raise no_congestion_control(name, f"host {self.name}")
        if name not in allowed_congestion_controls():
            raise LabError(
                "lab.not_permitted",
                f"`{name}` cannot be the default of a host",
                f"host {self.name}",
                f"the kernel allows a namespace only {', '.join(allowed_congestion_controls())}",
                "choose the congestion control for each socket, or add it to the sysctl "
                "net.ipv4.tcp_allowed_congestion_control",
            )
        self.set_sysctl("net.ipv4.tcp_congestion_control", name)

    def _must_be_open(self) -> None:
        if self._belongings.closed:
            raise LabError(
                "lab.closed",
                f"{self.name} is closed",
                f"host {self.name}",
                "the network lab of this host is already closed",
                "use the host inside the lab's `with` block",
            )

    def _at(self, args: Sequence[str]) -> str:
        return f"host {self.name}: {' '.join(args)}"
