"""Explains errors of bcc: its exceptions have no types, and compiler and verifier print to stderr."""

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
REPORTED: Final = 2000
"""Maximum length of quoted output [characters]."""

_SOURCE: Final = "/virtual/main.c"
"""Name of the text in bcc's messages."""
_COMPLAINT: Final = re.compile(rf"{re.escape(_SOURCE)}:(\d+):(\d+): error: (.*)")
_NOT_ATTACHED: Final = re.compile(r"Failed to attach BPF program (\S+) to (\w+) b?'?([\w:./+]+)")


@contextmanager
def overheard() -> Iterator[Callable[[], str]]:
    """Capture what C libraries and Python write to stderr; yield a function that returns it.

    Python's stderr may differ from file descriptor 2, for instance in a notebook.
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
    """Convert an error of bcc to a `ProbeError`."""
    text = str(error)
    if text.startswith("Failed to compile"):
        return _not_compiled(said, name)
    if found := _NOT_ATTACHED.match(text):
        return _not_attached(found[2], found[3], name)
    if "Operation not permitted" in text:
        why = "the process lacks capabilities, or the kernel is locked down (Secure Boot)"
        return ProbeError(
            "probe.not_permitted", "this process is not permitted to load probes", name, why, "use sudo"
        )
    return ProbeError(
        "probe.refused",
        text,
        name,
        said.strip()[-REPORTED:],
        "the last lines are from the verifier: initialise structs (`= {}`), check pointers, bound loops",
    )


def _not_compiled(said: str, name: str) -> ProbeError:
    complaints = list(_COMPLAINT.finditer(said))
    where = f"{name}:{complaints[0][1]}:{complaints[0][2]}" if complaints else name
    why = "\n".join(f"line {one[1]}: {one[3]}" for one in complaints) or said.strip()[-REPORTED:]
    return ProbeError(
        "probe.not_compiled",
        "the probe does not compile",
        where,
        why,
        "correct the text; errors in the kernel's own headers mean that they are too new for this bcc: "
        "bcc 0.26 (Debian 12) supports Linux 6.1, but not 6.12",
    )


def _not_attached(kind: str, what: str, name: str) -> ProbeError:
    known = _known("available_events" if kind == "tracepoint" else "available_filter_functions")
    return ProbeError(
        "probe.not_attached",
        f"there is no {kind} at `{what}`",
        name,
        "the attach point does not exist in this kernel, is an inlined function, or cannot be probed",
        close_names(what, known, "place") if known else "search /proc/kallsyms, or use a tracepoint",
    )


def _known(listing: str) -> list[str]:
    for folder in TRACEFS:
        with suppress(OSError):
            return [line.split()[0] for line in (folder / listing).read_text().splitlines() if line]
    return []
