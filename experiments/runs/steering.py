"""ccplane's algorithms for the flows of one run: an agent in a separate process.

The process (`steering_process.py`) ends on request, and when this process dies, because it reads the other
end of a pipe. The process leaves nothing in the kernel.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec

from ccplane.agent.client import Client
from ccplane.base.errors import CcpError, LoadError
from ccplane.base.private import ROOT_DIR, make_directory
from ccplane.datapath import ebpf, registry
from experiments.agent_process import PIN_DIR
from experiments.errors import RunError
from experiments.events import ParamValue
from experiments.runs.bus import failed
from experiments.runs.variants import Variant

LOCK: Final = ROOT_DIR / "experiments.lock"
"""Lock file, held by the run that adds congestion controls (the agent's or a feature's) to the kernel."""

_ROOT: Final = Path(__file__).parents[2]
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 10.0
_LOCK_POLL_S: Final = 0.1


class Order(msgspec.Struct):
    """The first message to the process.

    Attributes:
        variants: The variants to run.
        place: Pin directory of its datapath, or its socket for datapaths other than the kernel's.
        datapath: Name of the datapath (`ccplane.datapath.registry`).
        broker: URL of the telemetry bus to listen to; None for none.
        decisions: CSV file to write, with the columns `noted.DECISION_COLUMNS`; None for none.
        regime_events: File of JSON lines for the regimes of flows; None for none.
        features_in: Directory for the events that features keep; None for none.
    """

    variants: list[Variant]
    place: str
    datapath: str = registry.EBPF
    broker: str | None = None
    decisions: str | None = None
    regime_events: str | None = None
    features_in: str | None = None


class Answer(msgspec.Struct):
    """A message of the process, sent when it serves flows and at its end.

    Attributes:
        error: Parts of the error (slug, message, where, why, fix); None for success.
        counters: The agent's totals; at its end.
    """

    error: tuple[str, str, str, str, str] | None = None
    counters: dict[str, int] | None = None


def _import_path() -> str:
    """Return this process's module path, so that the other process finds the same algorithms."""
    return os.pathsep.join([str(_ROOT), *(path or os.getcwd() for path in sys.path)])


@contextlib.contextmanager
def turn(waiting: Callable[[], None] = lambda: None, lock: Path = LOCK) -> Iterator[int]:
    """Wait for the right to add congestion controls to this machine's kernel, and hold it for a `with` block.

    Yields:
        The descriptor of the locked file. A process with a copy of the descriptor also holds the lock, until
        it closes the copy.

    Raises:
        LoadError: `load.no_run_dir`, `load.not_private`.
    """
    try:
        make_directory(lock.parent)
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise LoadError(
            "load.no_run_dir", f"cannot write {lock}", why=error.strerror or str(error), fix="run as root"
        ) from error
    try:
        reported = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not reported:
                    waiting()
                    reported = True
                time.sleep(_LOCK_POLL_S)
        yield file
    finally:
        os.close(file)


class Steering:
    """The agent of a run.

    Attributes:
        counters: Its totals (`ccplane.agent.agent_loop.Counters`), with its CPU time `cpu_us` during the time
            `serving_us` in which it served flows [us]; set by `stop`, empty if the agent could not report
            them.
        pid: Its process id.
    """

    def __init__(
        self,
        variants: Sequence[Variant],
        log: IO[bytes],
        lock: int | None,
        place: str = PIN_DIR,
        *,
        datapath: str = registry.EBPF,
        broker: str | None = None,
        decisions: Path | None = None,
        regime_events: Path | None = None,
        features_in: Path | None = None,
    ) -> None:
        """Start the agent, and wait until it serves flows.

        Args:
            variants: The variants to run, at least one.
            log: File for the agent's log.
            lock: Descriptor from `turn`. The agent gets a copy: if this process is killed, the next run waits
                until the agent has noticed and exited. None, if the datapath is not in the kernel.
            place: As in `Order`.
            datapath: As in `Order`.
            broker: As in `Order`.
            decisions: As in `Order`.
            regime_events: As in `Order`.
            features_in: As in `Order`.

        Raises:
            CcpError: If the agent cannot start.
            RunError: `run.agent`, if it exits without an error message, or is not ready in time.
        """
        self.counters: dict[str, int] = {}
        self._log = log
        self._place = place
        self._is_kernels = datapath == registry.EBPF
        self._pending = b""
        self._client: Client | None = None
        self._process = subprocess.Popen(
            # -P: do not import a folder `experiments` of the current directory
            [sys.executable, "-P", "-m", "experiments.runs.steering_process"],
            env=os.environ | {"PYTHONPATH": _import_path()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            bufsize=0,
            pass_fds=() if lock is None else (lock,),
            start_new_session=True,  # Ctrl-C must not reach it; the pipe ends it
        )
        self.pid = self._process.pid
        try:
            written = (decisions, regime_events, features_in)
            files = (None if file is None else str(file) for file in written)
            order = Order(list(variants), place, datapath, broker, *files)
            self._begin(order)
        except BaseException:
            self.stop()
            raise

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def must_run(self) -> None:
        """Check that the process is running.

        Raises:
            RunError: `run.agent`.
        """
        if not self.running:
            raise self._failed(f"it exited with status {self._process.returncode}")

    def set_param(self, variant: Variant, param: str, value: ParamValue) -> None:
        """Change a parameter of a variant for all its flows, as `ccp set` does.

        Raises:
            CcpError: If the agent refuses the value.
            RunError: `run.agent`, if the agent does not answer.
        """
        with self._asked() as client:
            client.set({f"{variant.name}.{param}": value})

    def edit(self, variant: Variant, file: Path) -> None:
        """Switch the flows of a variant to the version in a file, as `ccp load` does.

        Raises:
            CcpError: If the agent refuses the new version.
            RunError: `run.agent`, if the agent does not answer.
        """
        with self._asked() as client:
            client.load(file, variant.name)

    @contextlib.contextmanager
    def _asked(self) -> Iterator[Client]:
        try:
            if self._client is None:
                self._client = Client(pin_dir=self._place)
            yield self._client
        except LoadError as error:
            raise self._failed(f"it does not answer: {error.message}") from error

    def stop(self) -> None:
        """Stop the agent, and leave nothing in the kernel; may be called again."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._process.stdin is None or self._process.stdin.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            # Its counters are optional: the run is over.
            with contextlib.suppress(RunError):
                self.counters = self._answer(time.monotonic() + STOP_TIMEOUT_S).counters or {}
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()
            if self._process.returncode < 0 and self._is_kernels:  # killed: no cleanup of its own
                ebpf.unload(self._place)

    def _begin(self, order: Order) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        except BrokenPipeError as error:
            raise self._failed("it has exited") from error
        answer = self._answer(time.monotonic() + START_TIMEOUT_S)
        if answer.error is not None:
            slug, *parts = answer.error
            kind = LoadError if slug.startswith("load.") else CcpError
            raise kind(slug, *parts)

    def _answer(self, deadline_s: float) -> Answer:
        assert self._process.stdout is not None
        while b"\n" not in self._pending:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([self._process.stdout], [], [], left_s)[0]:
                raise self._failed("it does not answer")
            data = self._process.stdout.read(1 << 16)
            if not data:
                raise self._failed("it exited")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return msgspec.json.decode(line, type=Answer)

    def _failed(self, why: str) -> RunError:
        self._log.flush()
        return failed(
            why,
            Path(self._log.name).read_bytes(),
            "run.agent",
            "the run's agent failed",
            "process experiments.runs.steering_process",
            f"see its log {Path(self._log.name).name} in the result; `ccp check` and `ccp doctor` "
            "help to find the cause",
        )
