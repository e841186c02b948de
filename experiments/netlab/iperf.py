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

INTERVAL_S: Final = 0.1  # iperf3's shortest
_LISTEN_TIMEOUT_S: Final = 5.0
_CONNECT_TIMEOUT_S: Final = 5.0
_GRACE_S: Final = 20.0
"""How much longer than its duration a transfer may take [s]: to connect, to drain, to exchange results."""
_BULK_TIMEOUT_S: Final = 100.0
_INTERRUPT_TIMEOUT_S: Final = 5.0
_LISTENING: Final = "0A"  # TCP_LISTEN in /proc/net/tcp


class IperfOptions(TypedDict, total=False):
    """How to transfer. Exactly one of `duration_s` and `total_bytes` is needed.

    Attributes:
        duration_s: For how long [s]; whole seconds, as iperf3 reads them.
        total_bytes: How much to send, instead. iperf3 ends when it is sent, not when it has arrived.
        parallel: Number of streams; 1 by default.
        reverse: Whether the server sends.
        family: `ipv4` (default) or `ipv6`.
        mss_bytes: Segment size, if not what the link gives.
        rate_bytes_per_s: Limit of the application's rate, each stream [bytes/s].
        write_bytes: Size of each write.
        omit_s: Seconds at the beginning to leave out of the result.
        server_port: TCP port of the server; by default one that no other server of the host was given.
        client_port: Local port of the client's first stream, the next ones for more; the kernel's choice by
            default.
        timeout_s: When to give up [s]; by default 20 s more than the duration, or 100 s.
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
    """An iperf3 server that listens; ends with its `with` block, or with the lab.

    Attributes:
        host: Where it runs.
        port: Its TCP port.
        process: Its process.
    """

    def __init__(self, host: Host, *, port: int | None = None, one_off: bool = False) -> None:
        """Start it, and wait until it listens.

        Args:
            host: Where.
            port: TCP port; by default one that no other server of the host was given.
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
        """End it; may be called again."""
        process.end([self.process])


class IperfRun:
    """A transfer under way; ends with its `with` block, or with the lab.

    Attributes:
        process: The client's process.
    """

    def __init__(self, server: IperfServer, client: Host, args: Sequence[str], timeout_s: float) -> None:
        """Start the client; `start_iperf3` makes its arguments."""
        self._server = server
        self._where = f"host {client.name}: {' '.join(args)}"
        self._deadline_s = time.monotonic() + timeout_s
        # Many streams fill a pipe, and iperf3 then waits for a reader; a file takes it all.
        self._account = tempfile.TemporaryFile("w+")  # noqa: SIM115 - 2025-11: stop() closes it
        self.process = client.popen(args, stdout=self._account, stderr=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether it still transfers."""
        return self.process.poll() is None

    def wait(self) -> IperfResult:
        """Return the result, when the transfer is done.

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
        """End the transfer before its time, and return what the sending side did until then.

        Raises:
            LabError: `lab.iperf3`, if iperf3 leaves no account.
        """
        try:
            process.kill(self.process, signal.SIGINT)
            process.finish(self.process, timeout_s=_INTERRUPT_TIMEOUT_S, where=self._where, check=False)
            self._account.seek(0)
            return parse_intervals(self._account.read(), where=self._where)
        finally:
            self.stop()

    def stop(self) -> None:
        """End client and server, whatever they do; may be called again."""
        process.end([self.process])
        self._account.close()
        self._server.stop()


def start_iperf3(
    client: Host, server: Host, *, congestion: str | None, **options: Unpack[IperfOptions]
) -> IperfRun:
    """Start a transfer from client to server, with a server of its own.

    Args:
        client: Which host connects, and sends unless `reverse`.
        server: Which host listens.
        congestion: Congestion control of the sending side; None for the host's default.
        **options: See `IperfOptions`.

    Returns:
        The transfer under way.

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
    """Transfer from client to server and return what was measured.

    Args:
        client: Which host connects, and sends unless `reverse`.
        server: Which host listens.
        congestion: Congestion control of the sending side; None for the host's default.
        **options: See `IperfOptions`.

    Raises:
        LabError: As `start_iperf3` and `IperfRun.wait`.
    """
    with start_iperf3(client, server, congestion=congestion, **options) as run:
        return run.wait()


def wait_until_listening(host: Host, port: int, server: process.Process) -> None:
    """Return when something in a host listens on a TCP port.

    Args:
        host: Where.
        port: Which.
        server: The process that should; its end ends the waiting.

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
            said or (f"the server ended with status {ended}" if ended is not None else "it did not say why"),
            "choose another port if this one is taken",
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
            raise bad_value(f"{name} cannot be {value}", "iperf3", "give a whole number, at least 1")
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
