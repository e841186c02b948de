"""Runs on a Dask cluster: any worker simulates, those with root and the resource `kernel` have real sockets.

Dask gives a run to another worker when the one that had it dies. A run depends on nothing but its scenario,
so that does no harm. The scheduler needs Dask, and nothing of ccplane: it is told names and plain data.
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
"""The resource of workers that may run on real sockets; each such run takes one of it."""

_SCHEMES: Final = {"dask": "tcp", "dask+tls": "tls"}
_CONNECT_S: Final = 5
_WORKERS_S: Final = 10
"""How long is waited for the first worker: a cluster that grows by demand may have none."""


def address_of(place: str) -> str:
    """Return a scheduler's address as Dask writes it.

    Args:
        place: `dask://HOST:PORT`, or `dask+tls://HOST:PORT` with certificates of Dask's configuration.

    Raises:
        SweepError: `sweep.bad_place`.
    """
    try:
        parts = urlsplit(place)
        whole = bool(parts.scheme in _SCHEMES and parts.hostname and parts.port)
    except ValueError:  # a port that is no number
        whole = False
    if not whole or parts.path or parts.query:
        raise SweepError(
            "sweep.bad_place",
            f"`{place}` is no place for runs",
            f"--on {place}",
            "it is where a Dask scheduler listens",
            "write dask://HOST:PORT; `dask scheduler` listens on port 8786",
        )
    return f"{_SCHEMES[parts.scheme]}://{parts.netloc}"


@dataclass(frozen=True)
class Worker:
    """What a worker says of itself.

    Attributes:
        build: Its ccplane.
        root: Whether it has root.
        kernel: How many runs on real sockets it takes at once.
    """

    build: Build
    root: bool
    kernel: float


# --- there -------------------------------------------------------------------------------------------------


def describe(worker: Any) -> Worker:
    """Return what there is to know of the worker that this is."""
    return Worker(this_build(), os.geteuid() == 0, worker.state.total_resources.get(KERNEL, 0))


def do(scenario: dict[str, Any], expected: str, build: str, sent: dict[str, bytes]) -> away.Outcome:
    """Do a run on the worker that this is.

    Raises:
        SweepError: `sweep.other_version` if the worker joined with another ccplane, and as `away.do`.
    """
    from distributed import get_worker

    worker = get_worker()
    if this_build().digest != build:
        raise _other_version(worker.address, f"it has {this_build()}")
    return away.do(scenario, expected, sent, Path(worker.local_directory))


def _there(name: str) -> Callable[..., Any]:
    """Return a function of this module that is looked up only where it is called.

    It is pickled by value, so that it passes through a scheduler that has no ccplane.
    """

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module("experiments.runs.cluster"), name)(*arguments)

    return call


def _asked() -> Callable[..., Any]:
    """Return what asks a worker to describe itself, likewise; Dask passes the worker by this name."""
    describes = _there("describe")

    def call(dask_worker: Any) -> Any:
        return describes(dask_worker)

    return call


# --- here --------------------------------------------------------------------------------------------------


class Cluster:
    """A Dask cluster that does runs, for the length of a block."""

    def __init__(self, address: str) -> None:
        """Connect.

        Args:
            address: Of the scheduler, as Dask writes it.

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
                "start one with `dask scheduler`, or mend the address",
            ) from error
        try:
            self._client.wait_for_workers(1, timeout=_WORKERS_S)
        except TimeoutError as error:
            self._client.close()
            raise SweepError(
                "sweep.no_workers",
                f"the Dask scheduler at {address} has no worker",
                "--on",
                f"none came within {_WORKERS_S} s",
                f"start some: dask worker {address} --nworkers 4 --nthreads 1",
            ) from error

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Disconnect: the scheduler forgets the runs that wait, and what running ones will return."""
        self._client.close()

    def check(self, runs: Sequence[PlannedRun]) -> None:
        """See that the workers can do runs, and that they give what runs here would.

        Raises:
            SweepError: `sweep.other_version`, `sweep.no_root`.
        """
        told: dict[str, Any] = self._client.run(_asked(), on_error="return")
        workers = {}
        for address, worker in sorted(told.items()):
            if isinstance(worker, Worker):
                workers[address] = worker
                if differs := this_build().differences(worker.build):
                    raise _other_version(
                        address, f"it has {worker.build}, here is {this_build()}; different: {differs}"
                    )
            elif isinstance(worker, ImportError | AttributeError):
                raise _other_version(address, f"it has no ccplane that could be asked ({worker})") from worker
            elif not isinstance(worker, OSError):  # that would be one that has just gone
                raise _failed(worker, address) from worker
        if any(one.scenario.datapath != SIM for one in runs):
            _check_root(workers)

    def outcomes(self, runs: Sequence[PlannedRun]) -> Iterator[tuple[PlannedRun, away.Outcome]]:
        """Do runs; yields what became of each, in the order in which they end.

        Raises:
            SweepError: `sweep.cluster_lost`, `sweep.worker_failed`, `sweep.other_version`,
                `sweep.other_algorithm`.
        """
        from distributed import as_completed

        batch = uuid.uuid4().hex
        needed = away.needed(one.scenario for one in runs)
        # A task, not data that is kept somewhere: Dask makes it again if the worker dies that has it.
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
                "one worker after the other died with this run",
                self._address,
                str(error),
                "see the workers' logs; runs that need more memory than `--memory-limit` end so",
            )
            return away.Outcome(died.as_dict(), {})
        except CancelledError as error:
            raise SweepError(
                "sweep.cluster_lost",
                f"the Dask scheduler at {self._address} is gone",
                self._address,
                str(error),
                "start it again; the same command goes on with the missing runs",
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
        "no worker may run on real sockets" if not offering else f"{without[0]} has no root",
        "--on" if not offering else without[0],
        f"runs on real sockets go to workers that have root, and that offer the resource `{KERNEL}`",
        f'start such workers: sudo dask worker ... --nthreads 1 --resources "{KERNEL}=1"\n'
        "or simulate: --datapath sim",
    )


def _other_version(address: str, why: str) -> SweepError:
    return SweepError(
        "sweep.other_version",
        f"the worker {address} has another ccplane than this machine",
        address,
        f"{why}; another one may give other results",
        "install the same wheel on all machines (`make wheel` builds one), and start the worker again",
    )


def _failed(error: Exception, address: str) -> SweepError:
    return SweepError(
        "sweep.worker_failed",
        "a worker failed in a way that no run should",
        address,
        f"{type(error).__name__}: {error}",
        "see the workers' logs",
    )
