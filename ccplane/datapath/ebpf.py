"""The kernel datapath: a thin wrapper around the native module, whose class implements `Datapath`.

Without the compiled part, functions raise LoadError `load.no_native_module`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ccplane.base import native
from ccplane.base.pins import DEFAULT_PIN_DIR as DEFAULT_PIN_DIR

if TYPE_CHECKING:
    from ccplane.base.errors import CcpError
    from ccplane.datapath.protocol import DatapathView


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of the kernel datapath.

    Attributes:
        pin_dir: Directory in a bpffs.
        max_flows: Maximum concurrent flows with a slot; further flows run the fallback.
        ring_bytes: Size of the report ring [bytes], a power of two.
        heartbeat_timeout_ms: Time without a heartbeat after which flows go to the fallback [ms].
        report_timeout_ms: Time without an answer to its report after which a flow goes to the fallback [ms].
        max_cwnd_bytes: Maximum window [bytes]; the default is TCP's largest receive window.
        take_over: Allow a running agent, whose flows `adopt` takes over.
        max_flows_per_user: Maximum slots for one user's sockets; None for no quota.
        max_flows_per_cgroup: Maximum slots for sockets created in one cgroup (v2), not counting its
            descendants; None for no quota.
        reap_after_ms: When slots are scarce, flows silent for this time lose theirs [ms].
    """

    pin_dir: str = DEFAULT_PIN_DIR
    max_flows: int = 65_536
    ring_bytes: int = 8 << 20
    heartbeat_timeout_ms: int = 200
    report_timeout_ms: int = 5_000
    max_cwnd_bytes: int = 1 << 30
    take_over: bool = False
    max_flows_per_user: int | None = None
    max_flows_per_cgroup: int | None = None
    reap_after_ms: int = 300_000


def load(options: LoadOptions) -> native.EbpfDatapath:
    """Load the kernel datapath, or adopt a pinned one of any version.

    Returns:
        The datapath; this process owns it until `close()`.

    Raises:
        LoadError: If a requirement is missing.
    """
    return native.EbpfDatapath(**asdict(options))


def observe(pin_dir: str = DEFAULT_PIN_DIR) -> DatapathView:
    """Open a read-only view of another process's datapath.

    Raises:
        LoadError: If nothing is loaded there, or permission is denied.
    """
    return native.EbpfDatapath.observe(pin_dir)


@dataclass(frozen=True, slots=True)
class Unloaded:
    """Result of unloading, one line for each item.

    Attributes:
        removed: Items removed from the kernel; empty if nothing was loaded.
        moved: Sockets and namespace defaults that switched to a built-in congestion control.
        left: Items that could not be reached, or still use memory. Sockets among them switch when they next
            send.
    """

    removed: Sequence[str] = ()
    moved: Sequence[str] = ()
    left: Sequence[str] = ()


def unload(pin_dir: str = DEFAULT_PIN_DIR) -> Unloaded:
    """Remove registrations, programs and maps; sockets and defaults switch to a built-in congestion control.

    Raises:
        LoadError: If permission is denied.
    """
    return Unloaded(*native.EbpfDatapath.unload(pin_dir))


def compile_program(
    source: str, name: str = "default", origin: str = "<source>", first_line: int = 1
) -> native.Program:
    """Compile a fold program; needs no privilege.

    Args:
        source: CCP source text.
        name: Name of the program, for errors.
        origin: File that contains the text, for errors.
        first_line: Line of the file where the text begins, counted from 1.

    Raises:
        LangError: With the line in `origin`.
    """
    return native.compile(source, name=name, origin=origin, first_line=first_line)


def verify(program: native.Program) -> None:
    """Check a compiled program with the kernel's verifier, without installing it.

    Raises:
        VerifierError: If the kernel refuses it.
        LoadError: If this process has no permission to load BPF programs.
    """
    native.verify(program)


@dataclass(frozen=True, slots=True)
class Capability:
    """A requirement of the kernel datapath, or an optional feature.

    Attributes:
        name: Its name.
        ok: Whether this machine has it.
        required: Whether the datapath needs it to load.
        detail: What was found.
        fix: How to get it if it is missing.
    """

    name: str
    ok: bool
    required: bool
    detail: str
    fix: str


def probe() -> list[Capability]:
    """Return the capabilities of this kernel and process, in the order in which to fix them.

    Raises:
        LoadError: If the compiled part is missing.
    """
    return [
        Capability(
            name=name,
            ok=bool(found["ok"]),
            required=bool(found.get("required", True)),
            detail=str(found["detail"]),
            fix=str(found["fix"]),
        )
        for name, found in native.probe().items()
    ]


def try_load() -> list[Capability]:
    """Try to load each group of BPF programs, and unload it again; a running agent is not disturbed.

    Returns:
        The result for each group; only the datapath itself is required.
    """
    return [tried(name, error) for name, error in native.try_load()]


def tried(name: str, error: CcpError | None) -> Capability:
    """Return the result of trying to load a group of programs."""
    required = name == "datapath"
    if error is None:
        return Capability(name=name, ok=True, required=required, detail="loads", fix="")
    detail = ": ".join(part for part in (error.message, error.where, error.why) if part)
    return Capability(name=name, ok=False, required=required, detail=detail, fix=error.fix)


def drop_capabilities(keep: list[str] | None = None) -> list[str]:
    """Drop capabilities of the calling thread; other existing threads keep their capabilities.

    Args:
        keep: Capabilities to keep, such as `CAP_BPF`; None for those that a running agent needs.

    Returns:
        Names of the remaining capabilities.
    """
    return native.drop_capabilities(keep)


def socket_switch(cgroup: str | os.PathLike[str], netns_cookie: int) -> native.SocketSwitch:
    """Attach the programs that switch the congestion control of ordinary sockets.

    Args:
        cgroup: cgroup v2 directory; applies to sockets created in it or below.
        netns_cookie: SO_NETNS_COOKIE of the sockets' network namespace.

    Raises:
        CcpError: `switch.no_cgroup`, `switch.no_bpffs`, `switch.not_permitted`, `switch.refused` or
            `load.no_btf`.
    """
    return native.SocketSwitch(cgroup, netns_cookie)
