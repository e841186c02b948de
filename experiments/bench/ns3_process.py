"""ns-3 in a process of its own: its C++ cannot hurt this one, and its ten seconds of loading come once."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

from ccplane.base.extras import extra_part
from experiments.bench.errors import BenchError

TIMEOUT_S: Final = 600.0
"""How long a run may take at most, with loading [s]."""

_SCRIPT: Final = Path(__file__).with_name("ns3_run.py")
# -P: the script's folder has modules that are called as some of Python's own.
_COMMAND: Final = (sys.executable, "-P", str(_SCRIPT))
_LINES_TOLD: Final = 5


class Ns3:
    """Runs of ns-3, one after the other, within a `with` block."""

    def __init__(self, command: tuple[str, ...] = _COMMAND, timeout_s: float = TIMEOUT_S) -> None:
        """Prepare; nothing is started yet.

        Args:
            command: What answers plans.
            timeout_s: How long an answer may take [s].
        """
        self._command, self._timeout_s = command, timeout_s

    def __enter__(self) -> Self:
        """Start it.

        Raises:
            LoadError: `load.no_extra`, if there is no ns-3.
        """
        with extra_part():
            if find_spec("ns") is None:
                raise ModuleNotFoundError("No module named 'ns'", name="ns")
        self._said = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._said.close()

    def run(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """Run a plan.

        Args:
            plan: As of `ns3_peer.plan_of`.

        Returns:
            As of `ns3_run.run`.

        Raises:
            BenchError: `bench.peer_failed`.
        """
        ask, answer = self._process.stdin, self._process.stdout
        assert ask is not None
        assert answer is not None
        try:
            print(json.dumps(plan), file=ask, flush=True)
        except BrokenPipeError as error:
            raise self._failed() from error
        with selectors.DefaultSelector() as selector:
            selector.register(answer, selectors.EVENT_READ)
            if not selector.select(self._timeout_s):
                raise self._failed(f"it took more than {self._timeout_s:g} s")
        if not (line := answer.readline()):
            raise self._failed()
        told: dict[str, Any] = json.loads(line)
        return told

    def _failed(self, why: str = "") -> BenchError:
        self._said.seek(0)
        last = self._said.read().strip().splitlines()[-_LINES_TOLD:]
        return BenchError(
            "bench.peer_failed",
            "a run of ns-3 failed",
            _SCRIPT.name,
            why or "\n".join(last) or "it ended and said nothing",
            "see whether `python -c 'from ns import ns'` works",
        )
