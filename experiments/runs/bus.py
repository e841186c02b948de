"""The telemetry bus of a run, and what is said when a process around it fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from broker.embedded import EmbeddedBroker
from ccplane.agent.priority import raise_process
from experiments.errors import RunError
from experiments.netlab import process


@contextlib.contextmanager
def own_bus() -> Iterator[str]:
    """Run a broker for the length of a block, for this run only.

    Yields:
        Its URL.

    Raises:
        UsageError: If it does not start.
    """
    with contextlib.ExitStack() as around:
        broker = around.enter_context(EmbeddedBroker())
        if broker.pid is not None:
            raise_process(broker.pid)  # as emulator and agent: telemetry waits for no program
        yield str(broker.options)


def failed(why: str, said: bytes, slug: str, message: str, where: str, fix: str) -> RunError:
    """Return the error for a process around a run that failed.

    Args:
        why: What became of it.
        said: What it wrote to its log.
        slug: As of errors.
        message: As of errors.
        where: As of errors.
        fix: As of errors.
    """
    text = said[-process.TAIL_CHARACTERS :].decode(errors="replace").strip()
    return RunError(slug, message, where, f"{why}; its log ends with:\n{text}" if text else why, fix)
