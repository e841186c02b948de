"""Whether this host can run probes, and the module `bcc`, wherever the distribution put it.

bcc's Python module is no package of PyPI (`pip install bcc` brings something else): it comes with the
distribution, and works with any Python 3. A virtual environment does not see it, so it is looked for in the
distribution's folder, too; only this one module is taken from there.
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
"""Where Debian and Ubuntu put python3-bpfcc."""

HEADERS: Final = (Path("/lib/modules", os.uname().release, "build"), Path("/sys/kernel/kheaders.tar.xz"))
"""Where bcc looks for the kernel's headers."""

KPROBES: Final = Path("/sys/bus/event_source/devices/kprobe")
"""There if the kernel has kprobes."""

INSTALL: Final = "apt install python3-bpfcc (Debian, Ubuntu); pip has no such package"
INSTALL_HEADERS: Final = "apt install linux-headers-$(uname -r)"

_WANTS_KPROBES: Final = re.compile(r"\bk(?:ret)?probe__(\w+)")


def why_not() -> str | None:
    """Return why bcc cannot work here, or None; whether this user may is not looked at."""
    if _find() is None:
        return "Python has no module bcc"
    if not _has_headers():
        return f"the kernel's headers are neither in {HEADERS[0]} nor in {HEADERS[1]}"
    return None


def load(text: str) -> Any:
    """Return the module `bcc`, if this host can run a probe.

    Args:
        text: The probe.

    Raises:
        ProbeError: `probe.no_bcc`, `probe.wrong_bcc`, `probe.no_headers`, `probe.no_kprobes` or
            `probe.not_permitted`.
    """
    bcc = module()
    kernel = f"kernel {os.uname().release}"
    if not _has_headers():
        raise ProbeError(
            "probe.no_headers",
            "bcc compiles against the headers of the running kernel, and there are none",
            kernel,
            why_not() or "",
            INSTALL_HEADERS,
        )
    wanted = _WANTS_KPROBES.search(text)
    if wanted and not KPROBES.exists():
        raise ProbeError(
            "probe.no_kprobes",
            f"{wanted[0]} is a kprobe, and this kernel has none",
            kernel,
            "it was built without CONFIG_KPROBES",
            "use TRACEPOINT_PROBE or RAW_TRACEPOINT_PROBE, or a kernel with kprobes, as distributions have",
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
