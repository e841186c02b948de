"""ccplane's algorithms for the flows of one run: an agent in a process of its own.

The process (`steering_process.py`) ends when it is told to and when we die, because it reads our end of a
pipe; the kernel is left without a trace of it.
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
from ccplane.datapath import ebpf, registry
from experiments.agent_process import PIN_DIR
from experiments.errors import RunError
from experiments.events import ParamValue
from experiments.runs.bus import failed
from experiments.runs.variants import Variant

LOCK: Final = Path("/run/ccplane/experiments.lock")
"""Held by the run that adds congestion controls to the kernel: an agent's, or a feature's."""

_ROOT: Final = Path(__file__).parents[2]
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 10.0
_LOCK_POLL_S: Final = 0.1


class Order(msgspec.Struct):
    """What the process is told first.

    Attributes:
        variants: What to run.
        place: Where its datapath is pinned; or its socket, if that is not the kernel's.
        datapath: Which one (`ccplane.datapath.registry`).
        broker: URL of the telemetry bus to listen to; None for none.
        decisions: CSV file with the columns `noted.DECISION_COLUMNS`, to be written; None for none.
        regime_events: File of JSON lines that gets what becomes of flows with their regimes; None for none.
        features_in: Directory for the events that features keep; None if none are kept.
    """

    variants: list[Variant]
    place: str
    datapath: str = registry.EBPF
    broker: str | None = None
    decisions: str | None = None
    regime_events: str | None = None
    features_in: str | None = None


class Answer(msgspec.Struct):
    """What the process says when flows are served, and at its end.

    Attributes:
        error: What went wrong: slug, message, where, why, fix; None if nothing did.
        counters: What the agent did in all; at its end.
    """

    error: tuple[str, str, str, str, str] | None = None
    counters: dict[str, int] | None = None


def _import_path() -> str:
    """Return where modules are found here, so that algorithms are found there, too."""
    return os.pathsep.join([str(_ROOT), *(path or os.getcwd() for path in sys.path)])


@contextlib.contextmanager
def turn(waiting: Callable[[], None] = lambda: None, lock: Path = LOCK) -> Iterator[int]:
    """Wait until no other run on this machine adds to its kernel, and have that right for a block.

    Args:
        waiting: Called once, if another run has it.
        lock: The file that is locked.

    Yields:
        The descriptor of the locked file. Who has a copy of it has the lock, too, until it is closed.

    Raises:
        LoadError: `load.no_run_dir`.
    """
    try:
        lock.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise LoadError(
            "load.no_run_dir", f"cannot write {lock}", why=error.strerror or str(error), fix="run as root"
        ) from error
    try:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    waiting()
                    told = True
                time.sleep(_LOCK_POLL_S)
        yield file
    finally:
        os.close(file)


class Steering:
    """The agent of a run.

    Attributes:
        counters: What it did in all (`ccplane.agent.plane.Counters`), and its processor time `cpu_us` in the
            time `serving_us` in which flows were served [us]; after `stop`, empty if it could not tell.
        pid: Its process.
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
        """Start it, and wait until flows are served.

        Args:
            variants: What to run, at least one.
            log: What the agent writes goes here.
            lock: What `turn` gave. The agent has it, too: if we are killed, the next run waits until the
                agent has noticed and is gone. None, if the kernel has nothing of it.
            place: As in `Order`.
            datapath: As in `Order`.
            broker: As in `Order`.
            decisions: As in `Order`.
            regime_events: As in `Order`.
            features_in: As in `Order`.

        Raises:
            CcpError: What keeps it from starting.
            RunError: `run.agent`, if it ends without a word, or is not ready in time.
        """
        self.counters: dict[str, int] = {}
        self._log = log
        self._place = place
        self._is_kernels = datapath == registry.EBPF
        self._pending = b""
        self._client: Client | None = None
        self._process = subprocess.Popen(
            # -P: a folder `experiments` where the user happens to be is not ours
            [sys.executable, "-P", "-m", "experiments.runs.steering_process"],
            env=os.environ | {"PYTHONPATH": _import_path()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            bufsize=0,
            pass_fds=() if lock is None else (lock,),
            start_new_session=True,  # Ctrl-C is for us; it learns from the pipe
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
        """Whether it lives."""
        return self._process.poll() is None

    def must_run(self) -> None:
        """Find out whether it lives.

        Raises:
            RunError: `run.agent`.
        """
        if not self.running:
            raise self._failed(f"it ended with status {self._process.returncode}")

    def set_param(self, variant: Variant, param: str, value: ParamValue) -> None:
        """Change a parameter of a variant for all its flows, as `ccp set` does.

        Raises:
            CcpError: If it refuses the value.
            RunError: `run.agent`, if it does not answer.
        """
        with self._asked() as client:
            client.set({f"{variant.name}.{param}": value})

    def edit(self, variant: Variant, file: Path) -> None:
        """Let the flows of a variant go on with what is in a file, as `ccp load` does.

        Raises:
            CcpError: If it refuses the new version.
            RunError: `run.agent`, if it does not answer.
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
        """End it, and leave nothing of it in the kernel; may be called again."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._process.stdin is None or self._process.stdin.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            # Whatever keeps it from telling, the run that it steered is over.
            with contextlib.suppress(RunError):
                self.counters = self._answer(time.monotonic() + STOP_TIMEOUT_S).counters or {}
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()
            if self._process.returncode < 0 and self._is_kernels:  # killed: else it has tidied up itself
                ebpf.unload(self._place)

    def _begin(self, order: Order) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        except BrokenPipeError as error:
            raise self._failed("it is gone") from error
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
                raise self._failed("it ended")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return msgspec.json.decode(line, type=Answer)

    def _failed(self, why: str) -> RunError:
        self._log.flush()
        return failed(
            why,
            Path(self._log.name).read_bytes(),
            "run.agent",
            "the agent of the run failed",
            "process experiments.runs.steering_process",
            f"the result's {Path(self._log.name).name} has all that it wrote; `ccp check` and `ccp doctor` "
            "look for the cause",
        )
