"""Bulk TCP transfers between hosts, by iperf3."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import Final, Self, TypedDict, Unpack

from experiments.netlab import process
from experiments.netlab.errors import LabError, bad_value
from experiments.netlab.host import Host
from experiments.netlab.iperf_result import IperfInterval, IperfResult, parse_intervals, parse_result
from experiments.netlab.spec import Family

INTERVAL_S: Final = 0.1  # iperf3's minimum
_LISTEN_TIMEOUT_S: Final = 60.0
"""Time in which a server that runs starts to listen, on an emulated, busy processor [s]."""
_CONNECT_TIMEOUT_S: Final = 5.0
_GRACE_S: Final = 20.0
"""Extra time for a transfer beyond its duration [s]: to connect, to drain, to exchange results."""
_BULK_TIMEOUT_S: Final = 100.0
_INTERRUPT_TIMEOUT_S: Final = 5.0
_LISTENING: Final = "0A"  # TCP_LISTEN in /proc/net/tcp


class IperfOptions(TypedDict, total=False):
    """Options of a transfer. Exactly one of `duration_s` and `total_bytes` is required.

    Attributes:
        duration_s: Duration [s]; a whole number, as iperf3 requires.
        total_bytes: Bytes to send, instead. iperf3 ends when they are sent, not when they have arrived.
        parallel: Number of streams; 1 by default.
        reverse: Whether the server sends.
        family: `ipv4` (default) or `ipv6`.
        mss_bytes: Segment size, if it differs from the link's.
        rate_bytes_per_s: Maximum rate of the application, per stream [bytes/s].
        write_bytes: Size of each write.
        omit_s: Seconds at the beginning to leave out of the result.
        server_port: TCP port of the server; an unused one by default.
        client_port: Local port of the client's first stream; further streams use the following ports. Chosen
            by the kernel by default.
        timeout_s: Time limit [s]; 20 s more than the duration by default, or 100 s.
    """

    duration_s: int
    total_bytes: int
    parallel: int
    reverse: bool
    family: Family
    mss_bytes: int
    rate_bytes_per_s: float
    write_bytes: int
    omit_s: int
    server_port: int
    client_port: int
    timeout_s: float


class IperfServer:
    """A listening iperf3 server; it ends with its `with` block, or with the lab.

    Attributes:
        host: Its host.
        port: Its TCP port.
        process: Its process.
    """

    def __init__(self, host: Host, *, port: int | None = None, one_off: bool = False) -> None:
        """Start the server, and wait until it listens.

        Args:
            host: Its host.
            port: TCP port; an unused one by default.
            one_off: Whether it ends after one transfer.

        Raises:
            LabError: `lab.not_listening`, `lab.no_command` or `lab.closed`.
        """
        self.host = host
        self.port = host.new_port() if port is None else port
        args = ["iperf3", "-s", "-p", str(self.port)] + (["-1"] if one_off else [])
        self.process = host.popen(args, stderr=subprocess.PIPE)
        try:
            wait_until_listening(host, self.port, self.process)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the server; may be called again."""
        process.end([self.process])


class IperfRun:
    """A running transfer; it ends with its `with` block, or with the lab.

    Attributes:
        process: The client's process.
    """

    def __init__(self, server: IperfServer, client: Host, args: Sequence[str], timeout_s: float) -> None:
        self._server = server
        self._where = f"host {client.name}: {' '.join(args)}"
        self._deadline_s = time.monotonic() + timeout_s
        # A file, because with many streams iperf3 would block on a full pipe.
        self._account = tempfile.TemporaryFile("w+")  # noqa: SIM115 - 2025-11: stop() closes it
        self.process = client.popen(args, stdout=self._account, stderr=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the transfer is running."""
        return self.process.poll() is None

    def wait(self) -> IperfResult:
        """Wait for the end of the transfer, and return its result.

        Raises:
            LabError: `lab.timeout`, `lab.iperf3` or `lab.no_congestion_control`.
        """
        try:
            left_s = max(0.0, self._deadline_s - time.monotonic())
            done = process.finish(self.process, timeout_s=left_s, where=self._where, check=False)
            self._account.seek(0)
            text = self._account.read()
        finally:
            self.stop()
        return parse_result(text, where=self._where, complaint=done.stderr)

    def interrupt(self) -> tuple[IperfInterval, ...]:
        """End the transfer early, and return the intervals of the sending side.

        Raises:
            LabError: `lab.iperf3`, if iperf3 writes no result.
        """
        try:
            process.kill(self.process, signal.SIGINT)
            process.finish(self.process, timeout_s=_INTERRUPT_TIMEOUT_S, where=self._where, check=False)
            self._account.seek(0)
            return parse_intervals(self._account.read(), where=self._where)
        finally:
            self.stop()

    def stop(self) -> None:
        """Stop client and server; may be called again."""
        process.end([self.process])
        self._account.close()
        self._server.stop()


def start_iperf3(
    client: Host, server: Host, *, congestion: str | None, **options: Unpack[IperfOptions]
) -> IperfRun:
    """Start a transfer from client to server, with a new server process.

    Args:
        client: Host that connects, and sends unless `reverse`.
        server: Host that listens.
        congestion: Congestion control of the sending side; None for the host's default.
        **options: See `IperfOptions`.

    Raises:
        LabError: `lab.bad_value`, `lab.not_listening`, `lab.no_command` or `lab.closed`.
    """
    flags, timeout_s = _flags(congestion, options)
    listening = IperfServer(server, port=options.get("server_port"))
    try:
        target = server.address(options.get("family", "ipv4"))
        args = ["iperf3", "-c", target, "-p", str(listening.port), *flags]
        return IperfRun(listening, client, args, timeout_s)
    except BaseException:
        listening.stop()
        raise


def iperf3(
    client: Host, server: Host, *, congestion: str | None, **options: Unpack[IperfOptions]
) -> IperfResult:
    """Transfer from client to server, and return the result; arguments as in `start_iperf3`.

    Raises:
        LabError: As in `start_iperf3` and `IperfRun.wait`.
    """
    with start_iperf3(client, server, congestion=congestion, **options) as run:
        return run.wait()


def wait_until_listening(host: Host, port: int, server: process.Process) -> None:
    """Wait until a process listens on a TCP port of a host.

    Raises:
        LabError: `lab.not_listening`.
    """
    suffix = f":{port:04X}"

    def listens() -> bool:
        for table in ("tcp", "tcp6"):
            with open(f"/proc/thread-self/net/{table}") as file:
                rows = (line.split() for line in file)
                if any(row[1].endswith(suffix) and row[3] == _LISTENING for row in rows):
                    return True
        return False

    def poll() -> bool:
        deadline_s = time.monotonic() + _LISTEN_TIMEOUT_S
        while server.poll() is None and time.monotonic() < deadline_s:
            if listens():
                return True
            time.sleep(0.002)
        return False

    if not host.call(poll):
        ended = server.poll()
        process.kill(server)
        said = server.stderr.read().strip() if server.stderr else ""
        raise LabError(
            "lab.not_listening",
            f"nothing listens on TCP port {port}",
            f"host {host.name}",
            said or (f"the server exited with status {ended}" if ended is not None else "no reason given"),
            "choose another port if this one is in use",
        )


def _flags(congestion: str | None, options: IperfOptions) -> tuple[list[str], float]:
    duration_s, total_bytes = options.get("duration_s"), options.get("total_bytes")
    if (duration_s is None) == (total_bytes is None):
        raise bad_value(
            "a transfer needs either a duration or a size", "iperf3", "give duration_s or total_bytes"
        )
    for name in ("duration_s", "total_bytes", "parallel"):
        value = options.get(name, 1)
        if not isinstance(value, int) or value < 1:
            raise bad_value(f"invalid {name}: {value}", "iperf3", "give a whole number, at least 1")
    omit_s = options.get("omit_s", 0)
    flags = ["--json", "-i", str(INTERVAL_S), "--connect-timeout", str(int(_CONNECT_TIMEOUT_S * 1000))]
    flags += ["-P", str(options.get("parallel", 1)), "-O", str(omit_s)]
    if congestion is not None:
        flags += ["-C", congestion]
    if options.get("reverse", False):
        flags += ["-R"]
    if (mss_bytes := options.get("mss_bytes")) is not None:
        flags += ["-M", str(mss_bytes)]
    if (rate := options.get("rate_bytes_per_s")) is not None:
        flags += ["-b", str(int(8 * rate))]
    if (write_bytes := options.get("write_bytes")) is not None:
        flags += ["-l", str(write_bytes)]
    if (client_port := options.get("client_port")) is not None:
        flags += ["--cport", str(client_port)]
    if duration_s is not None:
        return [*flags, "-t", str(duration_s)], options.get("timeout_s", duration_s + omit_s + _GRACE_S)
    return [*flags, "-n", str(total_bytes)], options.get("timeout_s", _BULK_TIMEOUT_S)
