"""Downloads by curl from nginx as traffic of a flow.

A client is one curl process with the list of all its downloads, so that it can keep its connection. A pause
between two downloads is a further download for curl: of a named pipe that ends when this process closes its
other end.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Final

from ccplane.base import clock
from experiments.netlab import process
from experiments.netlab.host import Host
from experiments.netlab.spec import Family
from experiments.traffic.nginx import Nginx
from experiments.traffic.running import ObjectResult, Played
from experiments.traffic.served import ServedTraffic
from experiments.traffic.spec import Http
from experiments.traffic.steps import steps

_CONNECT_TIMEOUT_S: Final = 30
_JOIN_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.001

_OPTIONS: Final = [
    "--disable",  # ignore ~/.curlrc; must be the first option
    "--noproxy",
    "*",
    "--globoff",
    "--http1.1",
    "--fail",
    "--fail-early",
    "--silent",
    "--show-error",
    "--connect-timeout",
    str(_CONNECT_TIMEOUT_S),
    "--write-out",
    "%{stderr}%{json}\\n",  # stderr is unbuffered: a line appears when its download is done
]


class _Client:
    """One curl process, and the thread that reads its reports and ends its pauses."""

    def __init__(self, number: int, spec: Http, host: Host, folder: Path, base_url: str) -> None:
        self.number = number
        self.complaints: list[str] = []
        self.hint = "exit codes are explained in `man curl`"
        self._objects: list[ObjectResult] = []
        self.where = f"host {host.name}: curl {base_url}"
        self._gap = folder / f"gap{number}"
        os.mkfifo(self._gap)
        self._stopped = threading.Event()
        self._steps = steps(spec)
        urls = folder / f"urls{number}"
        urls.write_text("".join(self._entry(step, base_url) for step in self._steps))
        options = _OPTIONS if spec.persistent else [*_OPTIONS, "--header", "Connection: close"]
        self.process = host.popen(["curl", *options, "--config", str(urls)], stderr=subprocess.PIPE)
        self.thread = threading.Thread(target=self._follow, name=f"curl {number}", daemon=True)
        self.thread.start()

    def _entry(self, step: int | float, base_url: str) -> str:
        url = f"{base_url}/{step}" if isinstance(step, int) else f"file://{self._gap}"
        return f'url = "{url}"\noutput = "/dev/null"\n'

    def _follow(self) -> None:
        assert self.process.stderr is not None
        step = 0
        with contextlib.suppress(ValueError, OSError):  # closed by the lab
            for line in self.process.stderr:
                if not line.startswith("{"):
                    self.complaints.append(line.strip())
                    continue
                if isinstance(self._steps[step], int):
                    self._note(json.loads(line), clock.now_us())
                step += 1
                if step < len(self._steps) and isinstance(gap_s := self._steps[step], float):
                    self._stopped.wait(gap_s)
                    self._end_gap()

    def _note(self, report: dict[str, Any], now_us: int) -> None:
        if report["exitcode"] != 0:
            return  # curl also prints the error as text
        self._objects.append(
            ObjectResult(
                connection=self.number,
                number=len(self._objects),
                size_bytes=report["size_download"],
                start_us=now_us - round(1e6 * report["time_total"]),
                first_byte_s=report["time_starttransfer"],
                completion_s=report["time_total"],
                new_connection=report["num_connects"] > 0,
            )
        )

    def _end_gap(self) -> None:
        """Open and close the pipe, once curl has opened its end."""
        while self.process.poll() is None and not self._stopped.is_set():
            try:
                os.close(os.open(self._gap, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                time.sleep(_POLL_S)  # curl has not opened it yet
            else:
                return

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def failure(self) -> str | None:
        status = self.process.poll()
        return f"curl exited with status {status}" if status else None

    def objects(self) -> list[ObjectResult]:
        return self._objects

    def playback(self) -> tuple[Played, ...]:
        return ()

    def join(self, timeout_s: float) -> None:
        self.thread.join(timeout_s)
        if not self.thread.is_alive():  # it closed its output, so it is about to exit
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_JOIN_TIMEOUT_S)

    def stop(self) -> None:
        self._stopped.set()
        process.end([self.process])
        self.thread.join(_JOIN_TIMEOUT_S)


class HttpTraffic(ServedTraffic):
    """Running downloads by curl."""

    def __init__(
        self,
        spec: Http,
        sender: Host,
        receiver: Host,
        *,
        congestion: str,
        family: Family = "ipv4",
        duration_s: float,
        port: int | None = None,
    ) -> None:
        """Start server and clients; arguments and errors as in `start_traffic`."""
        process.which("curl", f"host {receiver.name}: curl")
        server = Nginx(sender, port=port, family=family, congestion=congestion, sizes_bytes=spec.objects)
        clients = [
            functools.partial(_Client, number, spec, receiver, server.folder)
            for number in range(spec.connections)
        ]
        super().__init__(server, sender, clients, duration_s=duration_s)
