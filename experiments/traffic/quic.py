"""Downloads over QUIC as traffic of a flow: the example `files` of `native/ccp-quic` at both ends.

Either quinn's own CUBIC or an agent controls the server's connections. The programs report samples of their
connections, because the kernel only samples TCP.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.netlab import process
from experiments.netlab.errors import LabError, bad_value
from experiments.netlab.host import Host
from experiments.netlab.spec import Family
from experiments.traffic import files
from experiments.traffic.running import ConnectionSample, ObjectResult, Played, TrafficResult
from experiments.traffic.served import ServedTraffic
from experiments.traffic.spec import QUINN, Quic
from experiments.traffic.steps import steps

OWN: Final = "ccp."
"""Prefix of an agent's congestion controls."""

Row = Mapping[str, Any]
"""A line of JSON printed by the example; its head comment documents the fields."""


@dataclass(frozen=True, slots=True)
class QuicOptions:
    """Additional options of QUIC traffic.

    Attributes:
        agent: Socket of the agent that controls the flow's connections; None for no agent.
        sample_interval_us: Time between samples of connections [us].
    """

    agent: Path | None = None
    sample_interval_us: int = 100_000


class _Client:
    def __init__(
        self, number: int, spec: Quic, host: Host, server: files.FileServer, interval_us: int, _url: str
    ) -> None:
        self.number = number
        self.hint = "run the command manually in the host, while the flow is running"
        entries = server.folder / f"list{number}"
        entries.write_text("".join(_entry(step) for step in steps(spec)))
        arguments = server.client("list", str(entries))
        self._program = files.Running(host, arguments, sample_interval_us=interval_us)
        self.where = self._program.where

    @property
    def running(self) -> bool:
        return self._program.process.poll() is None

    @property
    def failure(self) -> str | None:
        status = self._program.process.poll()
        return f"the client exited with {process.status(status)}" if status else None

    @property
    def complaints(self) -> list[str]:
        return [self._program.log()]

    @property
    def rows(self) -> Sequence[Row]:
        return self._program.rows

    def objects(self) -> list[ObjectResult]:
        done = [row for row in self.rows if "end_us" in row]
        return [
            ObjectResult(
                connection=self.number,
                number=number,
                size_bytes=row["size_bytes"],
                start_us=row["start_us"],
                first_byte_s=(row["first_byte_us"] - row["start_us"]) / 1e6,
                completion_s=(row["end_us"] - row["start_us"]) / 1e6,
                new_connection=number == 0,
            )
            for number, row in enumerate(done)
        ]

    def playback(self) -> tuple[Played, ...]:
        return ()

    def join(self, timeout_s: float) -> None:
        self._program.join(timeout_s)

    def stop(self) -> None:
        self._program.stop()


def _entry(step: int | float) -> str:
    return f"zeros/{step} /dev/null\n" if isinstance(step, int) else f"pause {step}\n"


class QuicTraffic(ServedTraffic):
    """Running downloads over QUIC."""

    def __init__(
        self,
        spec: Quic,
        sender: Host,
        receiver: Host,
        *,
        congestion: str,
        family: Family = "ipv4",
        duration_s: float,
        port: int | None = None,
        options: QuicOptions,
    ) -> None:
        """Start server and clients; arguments and errors as in `start_traffic`."""
        files.must_be_built()
        is_quinns = congestion == QUINN
        if not is_quinns and (options.agent is None or not congestion.startswith(OWN)):
            without = "" if options.agent else " without an agent"
            raise bad_value(
                f"QUIC has no congestion control `{congestion}`{without}",
                f"host {sender.name}: QUIC",
                f"use {QUINN}, or {OWN}NAME with the socket of an agent that has it",
            )
        self._congestion = congestion
        self._interval_us = options.sample_interval_us
        self._server = files.FileServer(
            sender,
            agent=None if is_quinns else options.agent,
            algorithm=congestion.removeprefix(OWN),
            port=port,
            family=family,
            sample_interval_us=options.sample_interval_us,
        )
        self._downloads: list[_Client] = []
        clients = [
            functools.partial(self._client, number, spec, receiver) for number in range(spec.connections)
        ]
        super().__init__(self._server, sender, clients, duration_s=duration_s)

    def _client(self, number: int, spec: Quic, host: Host, url: str) -> _Client:
        client = _Client(number, spec, host, self._server, self._interval_us, url)
        self._downloads.append(client)
        return client

    def _finish(self) -> TrafficResult:
        status = self._server.process.poll()
        result = super()._finish()
        if status is not None:  # clients only notice after half a minute
            raise LabError(
                "lab.command_failed",
                f"the server exited with {process.status(status)}",
                self._server.where,
                self._server.log() or "the server gave no reason",
                "run the command manually in the host",
            )
        ends_us = [one.start_us + one.completion_s * 1e6 for one in result.objects]
        if result.complete and ends_us:  # clients linger in case their last acknowledgements are lost
            result = replace(result, duration_s=(max(ends_us) - self.started_us) / 1e6)
        return replace(result, samples=self._samples())

    def _samples(self) -> tuple[ConnectionSample, ...]:
        rows = {client.number: client.rows for client in self._downloads}
        return sampled(self._server.rows, rows, self._congestion, self._interval_us)


def sampled(
    server: Sequence[Row], clients: Mapping[int, Sequence[Row]], congestion: str, interval_us: int
) -> tuple[ConnectionSample, ...]:
    """Return samples of connections: the server's, with the bytes that their clients had received by then.

    Both ends sample at the multiples of the interval, and report slightly later.
    """
    numbers = {row["port"]: number for number, rows in clients.items() for row in rows}
    received = {number: _received(rows) for number, rows in clients.items()}
    samples = []
    for row in server:
        number = numbers.get(row["port"])
        if number is None:
            continue  # new: its client is not identified yet
        t_us, raw = received[number]
        seen = int(np.searchsorted(t_us // interval_us, row["t_us"] // interval_us, side="right"))
        samples.append(
            ConnectionSample(
                t_us=row["t_us"],
                connection=number,
                open=row["open"],
                congestion=congestion if row["steered"] else QUINN,
                mss_bytes=row["mtu_bytes"],
                cwnd_bytes=row["cwnd_bytes"],
                srtt_us=row["srtt_us"],
                lost_pkts=row["lost_pkts"],
                bytes_sent=row["sent_bytes"],
                bytes_acked=int(raw[seen - 1]) if seen else 0,
            )
        )
    return tuple(samples)


def _received(rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of a client's samples [us], and the bytes received by then."""
    reported = [(row["t_us"], row["bytes"]) for row in rows if "bytes" in row]
    table = np.array(reported, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
