"""The kernel datapath: the thin Python face of the native module.

The native class implements `ccplane.datapath.protocol.Datapath` as it is. This face adds one thing: without
the compiled part every function says so in one sentence (`load.no_native_module`) instead of an ImportError.
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
    """How to load the kernel datapath.

    Attributes:
        pin_dir: Directory in a bpffs.
        max_flows: Concurrent flows that get a slot; the others run the fallback law.
        ring_bytes: Size of the report ring [bytes], a power of two.
        heartbeat_timeout_ms: Silence of the agent after which flows go to the fallback law [ms].
        max_cwnd_bytes: No window ever gets larger [bytes]; the default is TCP's largest receive window.
        take_over: Have an agent that runs hand its flows over, once all is loaded that the kernel can refuse.
        max_flows_per_user: Slots of one user's sockets; None for no quota.
        max_flows_per_cgroup: Slots of the sockets that were made in one cgroup (v2), those below it left
            out; None for no quota.
        reap_after_ms: When slots are scarce, flows that were silent for so long lose theirs [ms].
    """

    pin_dir: str = DEFAULT_PIN_DIR
    max_flows: int = 65_536
    ring_bytes: int = 8 << 20
    heartbeat_timeout_ms: int = 200
    max_cwnd_bytes: int = 1 << 30
    take_over: bool = False
    max_flows_per_user: int | None = None
    max_flows_per_cgroup: int | None = None
    reap_after_ms: int = 300_000


def load(options: LoadOptions) -> native.EbpfDatapath:
    """Load the kernel datapath, or adopt the one that is pinned already, of whatever version.

    Args:
        options: How to load it.

    Returns:
        The datapath; this process owns it until `close()`.

    Raises:
        LoadError: If something is missing; it says what.
    """
    return native.EbpfDatapath(**asdict(options))


def observe(pin_dir: str = DEFAULT_PIN_DIR) -> DatapathView:
    """Open a read-only view of the datapath that another process owns.

    Args:
        pin_dir: Directory in a bpffs.

    Raises:
        LoadError: If nothing is loaded there, or it may not be read.
    """
    return native.EbpfDatapath.observe(pin_dir)


@dataclass(frozen=True, slots=True)
class Unloaded:
    """What unloading came to, one line for each thing.

    Attributes:
        removed: What is no longer in the kernel; empty if nothing was loaded.
        moved: Sockets and defaults of namespaces that have a congestion control of the kernel's now.
        left: What could not be reached, or keeps memory. Sockets among it leave when they next send.
    """

    removed: Sequence[str] = ()
    moved: Sequence[str] = ()
    left: Sequence[str] = ()


def unload(pin_dir: str = DEFAULT_PIN_DIR) -> Unloaded:
    """Remove registration, programs and maps; sockets and defaults get a congestion control of the kernel's.

    Args:
        pin_dir: Directory in a bpffs.

    Returns:
        What came of it.

    Raises:
        LoadError: If it may not be removed.
    """
    return Unloaded(*native.EbpfDatapath.unload(pin_dir))


def compile_program(
    source: str, name: str = "default", origin: str = "<source>", first_line: int = 1
) -> native.Program:
    """Compile a fold program; needs no privilege.

    Args:
        source: CCP source text.
        name: Name of the program, for messages.
        origin: File in which the text stands.
        first_line: Line of that file in which the text begins, counted from 1.

    Raises:
        LangError: With the line in `origin`.
    """
    return native.compile(source, name=name, origin=origin, first_line=first_line)


def verify(program: native.Program) -> None:
    """Show a program to the kernel's verifier without installing it.

    Args:
        program: The compiled program.

    Raises:
        VerifierError: If the kernel refuses it.
        LoadError: If this process may not load BPF programs.
    """
    native.verify(program)


def rehearse(pin_dir: str, cc_names: Sequence[str], extensions: Sequence[tuple[str, bytes | None]]) -> None:
    """Try to add names and extensions to a datapath, while another agent has it, and leave nothing behind.

    Args:
        pin_dir: Directory of the datapath.
        cc_names: Congestion-control names.
        extensions: Names and objects; None for one that ships with ccplane.

    Raises:
        LoadError: What would be refused, as `Datapath.register` and `Datapath.extend` do.
    """
    native.rehearse(pin_dir, cc_names, extensions)


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that the kernel datapath needs, or can use.

    Attributes:
        name: What it is.
        ok: Whether this machine has it.
        required: Whether the datapath cannot load without it.
        detail: What was found.
        fix: What to do if it is missing.
    """

    name: str
    ok: bool
    required: bool
    detail: str
    fix: str


def probe() -> list[Capability]:
    """Return what this kernel and process can do, in the order in which to fix it.

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
    """Load each part of the kernel's programs and take it away again.

    Nothing is registered and nothing stays; an agent that runs is not disturbed.

    Returns:
        What became of each part of this build; only the datapath itself is required.

    Raises:
        LoadError: `load.no_native_module`.
    """
    return [tried(name, error) for name, error in native.try_load()]


def tried(name: str, error: CcpError | None) -> Capability:
    """Return what became of a part that was loaded to see."""
    required = name == "datapath"
    if error is None:
        return Capability(name=name, ok=True, required=required, detail="loads", fix="")
    detail = ": ".join(part for part in (error.message, error.where, error.why) if part)
    return Capability(name=name, ok=False, required=required, detail=detail, fix=error.fix)


def drop_capabilities(keep: list[str] | None = None) -> list[str]:
    """Drop capabilities of the calling thread; threads that are there already keep theirs.

    Args:
        keep: Names of those to keep, such as `CAP_BPF`; None for those that a running agent needs.

    Returns:
        The names of those that are left.
    """
    return native.drop_capabilities(keep)


def socket_switch(cgroup: str | os.PathLike[str], netns_cookie: int) -> native.SocketSwitch:
    """Attach the programs that give ordinary sockets other congestion controls.

    Args:
        cgroup: New sockets are those made in this cgroup v2 directory or below.
        netns_cookie: And in this network namespace: its SO_NETNS_COOKIE.

    Raises:
        LoadError: `load.no_native_module`.
        CcpError: `switch.no_cgroup`, `switch.no_bpffs`, `switch.not_permitted`, `switch.refused` or
            `load.no_btf`.
    """
    return native.SocketSwitch(cgroup, netns_cookie)
