"""Errors of the compiled part, for the page of errors: slugs that only Rust sources have, and meanings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]

SLUGS: Final[dict[str, str]] = {
    "lang.bytecode": "bytecode from another agent is malformed",
    "lang.duplicate_name": "a name of a fold program is declared twice",
    "lang.limit": "a fold program or its bytecode is above a limit",
    "lang.number": "a number of a fold program cannot be parsed, or is too large",
    "lang.read_only": "a fold program assigns to a primitive",
    "lang.reserved_name": "a register has a name that the language reserves",
    "lang.syntax": "a fold program cannot be parsed",
    "lang.type": "an operator of a fold program gets a number where it takes a flag, or a flag for a number",
    "lang.unknown_field": "the datapath has no such primitive",
    "lang.unknown_name": "a fold program reads a name that it does not declare",
    "load.already_running": "another agent controls the flows of this datapath",
    "load.being_handed_over": "another agent is taking the flows over",
    "load.bell": "an event counter cannot be created",
    "load.capabilities": "capabilities cannot be dropped",
    "load.extension": "an extension of the datapath cannot be loaded",
    "load.map": "a map of the datapath cannot be read, written or mapped",
    "load.no_btf": "the kernel has no BTF type information",
    "load.no_kernel_part": "this build of ccplane has no kernel part",
    "load.no_struct_ops": "the kernel cannot run eBPF congestion control",
    "load.not_handed_over": "the running agent does not hand its flows over",
    "load.not_loaded": "no ccplane datapath is loaded",
    "load.object": "the BPF object does not match this build",
    "load.option": "an option of the datapath is not valid",
    "load.pin": "the datapath cannot be pinned in the BPF file system",
    "load.refused": "the kernel rejected the eBPF datapath",
    "load.register": "a congestion control cannot be registered",
    "load.ring": "the ring buffer of reports cannot be mapped",
    "load.unload": "a pin cannot be removed",
    "load.version": "the loaded datapath belongs to another version of ccplane",
    "rtcp.bad_options": "the detector's options are not valid",
    "rtcp.closed": "R-TCP's congestion controls were detached",
    "rtcp.name_taken": "a congestion control has R-TCP's name already",
    "rtcp.no_original": "the kernel has loaded neither CUBIC nor BBR",
    "rtcp.no_struct_ops": "the kernel cannot run eBPF congestion control",
    "rtcp.not_attached": "R-TCP is not attached, or this process may not see it",
    "rtcp.not_kept": "verdicts cannot outlive the process",
    "rtcp.not_permitted": "registering congestion controls is not permitted",
    "rtcp.refused": "the kernel rejected R-TCP's programs",
    "rtcp.too_many_rules": "there are more rules than R-TCP's table has entries",
    "switch.bad_rule": "a rule cannot be written to the kernel's table",
    "switch.closed": "the switch was closed",
    "switch.no_bpffs": "the program that resets sockets after a crash cannot be pinned",
    "switch.no_cgroup": "no cgroup v2 hierarchy is mounted, so new sockets cannot be detected",
    "switch.not_permitted": "the kernel denied permission",
    "switch.refused": "the kernel rejected the program that switches sockets",
    "switch.too_many": "there are more rules than the kernel's table has entries",
    "trace.closed": "the trace was closed",
    "trace.no_tracepoint": "the kernel has no tracepoint that sampling of sockets needs",
    "trace.not_permitted": "tracing sockets is not permitted",
    "trace.refused": "the kernel rejected the tracing program",
    "verifier.refused": "the kernel's verifier rejected a fold program that compiled",
}
"""Slug -> meaning."""

_AREAS: Final = "|".join(sorted({slug.partition(".")[0] for slug in SLUGS}))


def in_sources() -> set[str]:
    """Return the slugs of these areas that the Rust sources name."""
    sources = (path for path in (ROOT / "native").glob("*/src/**/*.rs"))
    return {slug for path in sources for slug in re.findall(rf'"((?:{_AREAS})\.[a-z_]+)"', path.read_text())}
