from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from distributed import Client

ROOT: Final = Path(__file__).parents[3]
_START_S: Final = 60


class Here:
    """A scheduler and its workers.

    Attributes:
        address: Address in Dask's format.
        place: Value for `--on`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        file = folder / "scheduler.json"
        ports = ("--host", "127.0.0.1", "--port", "0")
        self._processes = [_start("scheduler", folder, *ports, "--scheduler-file", str(file))]
        until_s = time.monotonic() + _START_S
        while not file.exists() or not file.read_text():
            assert time.monotonic() < until_s, (folder / "scheduler.log").read_text()
            time.sleep(0.05)
        self.address = json.loads(file.read_text())["address"]
        self.place = self.address.replace("tcp", "dask")

    def workers(self, count: int, *options: str, cwd: Path = ROOT) -> list[subprocess.Popen[bytes]]:
        with self.client() as client:
            before = len(workers_of(client))
            given = ("--no-nanny", "--nthreads", "1", "--local-directory", str(self._folder), *options)
            started = [_start("worker", self._folder, self.address, *given, cwd=cwd) for _ in range(count)]
            client.wait_for_workers(before + count, timeout=_START_S)
        self._processes += started
        return started

    def client(self) -> Any:
        return Client(self.address, timeout=_START_S, set_as_default=False)

    def end_scheduler(self) -> None:
        self._processes[0].kill()
        self._processes[0].wait()

    def end(self, process: subprocess.Popen[bytes]) -> None:
        with self.client() as client:
            there = len(workers_of(client))
            process.send_signal(signal.SIGTERM)
            process.wait()
            until_s = time.monotonic() + _START_S
            while len(workers_of(client)) == there and time.monotonic() < until_s:
                time.sleep(0.05)

    def close(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()


@contextmanager
def scheduler(folder: Path) -> Iterator[Here]:
    here = Here(folder)
    try:
        yield here
    finally:
        here.close()


def workers_of(client: Any) -> Mapping[str, Any]:
    reported: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return reported


def left(out: Path) -> dict[str, bytes]:
    found = {str(file.relative_to(out)): file.read_bytes() for file in out.rglob("*") if file.is_file()}
    for name in [name for name in found if name.endswith("metadata.json")]:
        reported = json.loads(found[name])
        del reported["started"], reported["wall_s"]
        found[name] = json.dumps(reported).encode()
    return found


def _start(what: str, folder: Path, *options: str, cwd: Path = ROOT) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *options]
    with (folder / f"{what}.log").open("ab") as log:
        return subprocess.Popen(command, cwd=cwd, stdout=log, stderr=log)
