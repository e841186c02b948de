"""Checks whether this host can run probes, and finds the distribution's module `bcc`.

bcc's Python module is not on PyPI (`pip install bcc` installs another project). The module comes with the
distribution, and works with any Python 3. Virtual environments do not see it, so this module also searches
the distribution's folder, and imports only this one module from there.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from telemetry.bpfcc.errors import ProbeError

DISTRIBUTION: Final = Path("/usr/lib/python3/dist-packages")
"""Folder of python3-bpfcc on Debian and Ubuntu."""

HEADERS: Final = (Path("/lib/modules", os.uname().release, "build"), Path("/sys/kernel/kheaders.tar.xz"))
"""Where bcc searches for the kernel's headers."""

KPROBES: Final = Path("/sys/bus/event_source/devices/kprobe")
"""File that exists if the kernel has kprobes."""

INSTALL: Final = "apt install python3-bpfcc (Debian, Ubuntu); pip has no such package"
INSTALL_HEADERS: Final = "apt install linux-headers-$(uname -r)"

_WANTS_KPROBES: Final = re.compile(r"\bk(?:ret)?probe__(\w+)")


def why_not() -> str | None:
    """Return why bcc cannot work here, or None; this does not check privileges."""
    if _find() is None:
        return "Python has no module bcc"
    if not _has_headers():
        return f"the kernel's headers are neither in {HEADERS[0]} nor in {HEADERS[1]}"
    return None


def load(text: str) -> Any:
    """Return the module `bcc`, if this host can run a probe with this C text.

    Raises:
        ProbeError: `probe.no_bcc`, `probe.wrong_bcc`, `probe.no_headers`, `probe.no_kprobes` or
            `probe.not_permitted`.
    """
    bcc = module()
    kernel = f"kernel {os.uname().release}"
    if not _has_headers():
        raise ProbeError(
            "probe.no_headers",
            "bcc needs the headers of the running kernel, which are not installed",
            kernel,
            why_not() or "",
            INSTALL_HEADERS,
        )
    wanted = _WANTS_KPROBES.search(text)
    if wanted and not KPROBES.exists():
        raise ProbeError(
            "probe.no_kprobes",
            f"{wanted[0]} needs kprobes, which this kernel lacks",
            kernel,
            "the kernel was built without CONFIG_KPROBES",
            "use TRACEPOINT_PROBE or RAW_TRACEPOINT_PROBE, or a distribution's kernel, which has kprobes",
        )
    if os.geteuid() != 0:
        raise ProbeError(
            "probe.not_permitted",
            "only root may attach probes",
            why=f"user id {os.geteuid()}",
            fix="use sudo",
        )
    return bcc


def _has_headers() -> bool:
    return any(path.exists() for path in HEADERS)


def _find() -> ModuleSpec | None:
    return importlib.util.find_spec("bcc") or PathFinder.find_spec("bcc", [str(DISTRIBUTION)])


def module() -> ModuleType:
    """Return the module `bcc`.

    Raises:
        ProbeError: `probe.no_bcc` or `probe.wrong_bcc`.
    """
    spec = _find()
    if spec is None or spec.loader is None:
        raise ProbeError("probe.no_bcc", "probes need bcc, which is not installed", fix=INSTALL)
    bcc = sys.modules.get("bcc")
    if bcc is None:
        bcc = sys.modules["bcc"] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(bcc)
        except Exception as error:
            del sys.modules["bcc"]
            why = f"{type(error).__name__}: {error}"
            raise ProbeError(
                "probe.no_bcc", "bcc cannot be imported", str(spec.origin), why, INSTALL
            ) from error
    if not hasattr(bcc, "BPF"):
        raise ProbeError(
            "probe.wrong_bcc",
            "Python's module bcc is not the BPF compiler collection",
            str(spec.origin),
            "the package `bcc` of PyPI is another project",
            f"pip uninstall bcc; {INSTALL}",
        )
    return bcc
