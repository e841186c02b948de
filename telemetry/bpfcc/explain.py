"""What bcc means: its exceptions have no types, and what the compiler and the verifier say goes to stderr."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from typing import Final

from ccplane.base.names import close_names
from telemetry.bpfcc.errors import ProbeError

TRACEFS: Final = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
TOLD: Final = 2000
"""How much of what was said is told [characters]."""

_SOURCE: Final = "/virtual/main.c"
"""What bcc calls the text."""
_COMPLAINT: Final = re.compile(rf"{re.escape(_SOURCE)}:(\d+):(\d+): error: (.*)")
_NOT_ATTACHED: Final = re.compile(r"Failed to attach BPF program (\S+) to (\w+) b?'?([\w:./+]+)")


@contextmanager
def overheard() -> Iterator[Callable[[], str]]:
    """Keep what is written to stderr from showing, by C libraries and by Python; gives what returns it.

    Python's stderr need not be file descriptor 2: a notebook has one of its own.
    """
    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile() as kept, redirect_stderr(io.StringIO()) as of_python:

        def said() -> str:
            kept.seek(0)
            return kept.read().decode(errors="replace") + of_python.getvalue()

        os.dup2(kept.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(before, 2)
            os.close(before)


def explained(error: Exception, said: str, name: str) -> ProbeError:
    """Return what keeps a probe from running as an error of ours.

    Args:
        error: What bcc raised.
        said: What was written to stderr meanwhile.
        name: What people call the text: a file, or `-e`.
    """
    text = str(error)
    if text.startswith("Failed to compile"):
        return _not_compiled(said, name)
    if found := _NOT_ATTACHED.match(text):
        return _not_attached(found[2], found[3], name)
    if "Operation not permitted" in text:
        why = "it lacks capabilities, or the kernel is locked down (Secure Boot)"
        return ProbeError("probe.not_permitted", "this process may not load probes", name, why, "use sudo")
    return ProbeError(
        "probe.refused",
        text,
        name,
        said.strip()[-TOLD:],
        "the last lines are the verifier's: initialise structs (`= {}`), check pointers, bound loops",
    )


def _not_compiled(said: str, name: str) -> ProbeError:
    complaints = list(_COMPLAINT.finditer(said))
    where = f"{name}:{complaints[0][1]}:{complaints[0][2]}" if complaints else name
    why = "\n".join(f"line {one[1]}: {one[3]}" for one in complaints) or said.strip()[-TOLD:]
    return ProbeError(
        "probe.not_compiled",
        "the probe does not compile",
        where,
        why,
        "mend the text; if the kernel's own headers are complained of, they are too new for this bcc: "
        "bcc 0.26 (Debian 12) knows Linux 6.1, not 6.12",
    )


def _not_attached(kind: str, what: str, name: str) -> ProbeError:
    known = _known("available_events" if kind == "tracepoint" else "available_filter_functions")
    return ProbeError(
        "probe.not_attached",
        f"there is no {kind} at `{what}`",
        name,
        "the kernel has none of this name, has it inlined, or does not let it be probed",
        close_names(what, known, "place") if known else "look in /proc/kallsyms, or take a tracepoint",
    )


def _known(listing: str) -> list[str]:
    for folder in TRACEFS:
        with suppress(OSError):
            return [line.split()[0] for line in (folder / listing).read_text().splitlines() if line]
    return []
