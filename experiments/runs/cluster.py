"""Runs on a Dask cluster: any worker simulates; workers with root and the resource `kernel` use real sockets.

If a worker dies, Dask gives its run to another worker, which is harmless because a run depends only on its
scenario. The scheduler needs Dask but not ccplane: it handles names and plain data only.
"""

from __future__ import annotations

import importlib
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from ccplane.base.extras import extra_part
from experiments.errors import SweepError
from experiments.runs import away
from experiments.runs.build import Build, this_build
from experiments.runs.check import SIM
from experiments.runs.planned import PlannedRun

if TYPE_CHECKING:
    from distributed import Client, Future

KERNEL: Final = "kernel"
"""Resource of workers that may run on real sockets; each such run takes one unit."""

_SCHEMES: Final = {"dask": "tcp", "dask+tls": "tls"}
_CONNECT_S: Final = 5
_WORKERS_S: Final = 10
"""Wait for the first worker [s]; a cluster that grows on demand may start with none."""


def address_of(place: str) -> str:
    """Return a scheduler's address in Dask's format.

    Args:
        place: `dask://HOST:PORT`, or `dask+tls://HOST:PORT` with certificates from Dask's configuration.

    Raises:
        SweepError: `sweep.bad_place`.
    """
    try:
        parts = urlsplit(place)
        whole = bool(parts.scheme in _SCHEMES and parts.hostname and parts.port)
    except ValueError:  # the port is not a number
        whole = False
    if not whole or parts.path or parts.query:
        raise SweepError(
            "sweep.bad_place",
            f"invalid place for runs: `{place}`",
            f"--on {place}",
            "the place must be the address of a Dask scheduler",
            "write dask://HOST:PORT; `dask scheduler` listens on port 8786",
        )
    return f"{_SCHEMES[parts.scheme]}://{parts.netloc}"


@dataclass(frozen=True)
class Worker:
    """What a worker reports about itself.

    Attributes:
        build: Its build of ccplane.
        root: Whether it has root.
        kernel: Number of simultaneous runs on real sockets.
    """

    build: Build
    root: bool
    kernel: float


# --- on workers
# -------------------------------------------------------------------------------------------------


def describe(worker: Any) -> Worker:
    """Describe this worker."""
    return Worker(this_build(), os.geteuid() == 0, worker.state.total_resources.get(KERNEL, 0))


def do(scenario: dict[str, Any], expected: str, build: str, sent: dict[str, bytes]) -> away.Outcome:
    """Do a run on this worker.

    Raises:
        SweepError: `sweep.other_version` if this worker has another build of ccplane; others as in `away.do`.
    """
    from distributed import get_worker

    worker = get_worker()
    if this_build().digest != build:
        raise _other_version(worker.address, f"it has {this_build()}")
    return away.do(scenario, expected, sent, Path(worker.local_directory))


def _there(name: str) -> Callable[..., Any]:
    """Return a function of this module, looked up only when it is called.

    It is pickled by value, so that it passes through a scheduler without ccplane.
    """

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module("experiments.runs.cluster"), name)(*arguments)

    return call


def _asked() -> Callable[..., Any]:
    """Return the function that describes a worker, likewise; Dask passes the worker by this name."""
    describes = _there("describe")

    def call(dask_worker: Any) -> Any:
        return describes(dask_worker)

    return call


# --- on this machine
# --------------------------------------------------------------------------------------------------


class Cluster:
    """A Dask cluster that does runs during a `with` block."""

    def __init__(self, address: str) -> None:
        """Connect to the scheduler.

        Raises:
            LoadError: `load.no_extra`, if Dask is not installed.
            SweepError: `sweep.unreachable`, `sweep.no_workers`.
        """
        with extra_part():
            from distributed import Client
        self._address = address
        try:
            self._client: Client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except OSError as error:
            raise SweepError(
                "sweep.unreachable",
                f"no Dask scheduler answers at {address}",
                "--on",
                str(error),
                "start a scheduler with `dask scheduler`, or correct the address",
            ) from error
        try:
            self._client.wait_for_workers(1, timeout=_WORKERS_S)
        except TimeoutError as error:
            self._client.close()
            raise SweepError(
                "sweep.no_workers",
                f"the Dask scheduler at {address} has no worker",
                "--on",
                f"no worker joined within {_WORKERS_S} s",
                f"start workers: dask worker {address} --nworkers 4 --nthreads 1",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Disconnect: the scheduler drops queued runs, and the results of running ones."""
        self._client.close()

    def check(self, runs: Sequence[PlannedRun]) -> None:
        """Check that the workers can do runs, and run the same build as this machine.

        Raises:
            SweepError: `sweep.other_version`, `sweep.no_root`.
        """
        reported: dict[str, Any] = self._client.run(_asked(), on_error="return")
        workers = {}
        for address, worker in sorted(reported.items()):
            if isinstance(worker, Worker):
                workers[address] = worker
                if differs := this_build().differences(worker.build):
                    raise _other_version(
                        address,
                        f"it has {worker.build}, this machine has {this_build()}; differences: {differs}",
                    )
            elif isinstance(worker, ImportError | AttributeError):
                raise _other_version(address, f"it does not have a usable ccplane ({worker})") from worker
            elif not isinstance(worker, OSError):  # OSError: the worker has just left
                raise _failed(worker, address) from worker
        if any(one.scenario.datapath != SIM for one in runs):
            _check_root(workers)

    def outcomes(self, runs: Sequence[PlannedRun]) -> Iterator[tuple[PlannedRun, away.Outcome]]:
        """Do runs; yield their outcomes in the order of completion.

        Raises:
            SweepError: `sweep.cluster_lost`, `sweep.worker_failed`, `sweep.other_version`,
                `sweep.other_algorithm`.
        """
        from distributed import as_completed

        batch = uuid.uuid4().hex
        needed = away.needed(one.scenario for one in runs)
        # A task instead of stored data: Dask repeats it if the worker that holds its result dies.
        sent = self._client.submit(dict, needed, key=f"files-{batch}")
        futures = {self._submit(one, sent, batch): one for one in runs}
        for future in as_completed(list(futures), loop=self._client.loop):
            one = futures.pop(future)
            yield one, self._outcome(future)
            future.release()

    def _submit(self, one: PlannedRun, sent: Future[Any], batch: str) -> Future[away.Outcome]:
        resources = None if one.scenario.datapath == SIM else {KERNEL: 1}
        return self._client.submit(
            _there("do"),
            one.scenario.plain(),
            one.key,
            this_build().digest,
            sent,
            key=f"run-{one.key}-{batch}",
            resources=resources,
        )

    def _outcome(self, future: Future[away.Outcome]) -> away.Outcome:
        from distributed import KilledWorker

        try:
            outcome: away.Outcome = future.result()
        except SweepError:
            raise
        except KilledWorker as error:
            died = SweepError(
                "sweep.worker_died",
                "several workers died during this run",
                self._address,
                str(error),
                "see the workers' logs; a run may need more memory than `--memory-limit` allows",
            )
            return away.Outcome(died.as_dict(), {})
        except CancelledError as error:
            raise SweepError(
                "sweep.cluster_lost",
                f"lost the connection to the Dask scheduler at {self._address}",
                self._address,
                str(error),
                "restart the scheduler; the same command resumes with the missing runs",
            ) from error
        except Exception as error:
            raise _failed(error, self._address) from error
        return outcome


def _check_root(workers: Mapping[str, Worker]) -> None:
    offering = {address: worker for address, worker in workers.items() if worker.kernel}
    without = [address for address, worker in offering.items() if not worker.root]
    if offering and not without:
        return
    raise SweepError(
        "sweep.no_root",
        "no worker can run on real sockets" if not offering else f"worker {without[0]} lacks root",
        "--on" if not offering else without[0],
        f"runs on real sockets need workers with root and the resource `{KERNEL}`",
        f'start such workers: sudo dask worker ... --nthreads 1 --resources "{KERNEL}=1"\n'
        "or simulate: --datapath sim",
    )


def _other_version(address: str, why: str) -> SweepError:
    return SweepError(
        "sweep.other_version",
        f"the worker {address} has another build of ccplane than this machine",
        address,
        f"{why}; another build may give other results",
        "install the same wheel on all machines (`make wheel` builds one), and restart the worker",
    )


def _failed(error: Exception, address: str) -> SweepError:
    return SweepError(
        "sweep.worker_failed",
        "a worker failed outside of a run",
        address,
        f"{type(error).__name__}: {error}",
        "see the workers' logs",
    )
