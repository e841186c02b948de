"""The telemetry bus of a run, and the error for a failed helper process of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from broker.embedded import EmbeddedBroker
from ccplane.agent.priority import raise_process
from experiments.errors import RunError
from experiments.netlab import process


@contextlib.contextmanager
def own_bus() -> Iterator[str]:
    """Run a broker for this run during a `with` block; yield its URL.

    Raises:
        UsageError: If the broker does not start.
    """
    with contextlib.ExitStack() as around:
        broker = around.enter_context(EmbeddedBroker())
        if broker.pid is not None:
            raise_process(broker.pid)  # like emulator and agent, so that telemetry is not delayed
        yield str(broker.options)


def failed(why: str, said: bytes, slug: str, message: str, where: str, fix: str) -> RunError:
    """Return the error for a failed helper process of a run."""
    text = said[-process.TAIL_CHARACTERS :].decode(errors="replace").strip()
    return RunError(slug, message, where, f"{why}; its log ends with:\n{text}" if text else why, fix)
