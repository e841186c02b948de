"""Chooses where the demo runs: on this machine's kernel if possible, else in the simulator."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from ccplane.base.errors import CcpError, LoadError, VerifierError
from ccplane.datapath import ebpf, registry
from experiments.agent_process import PIN_DIR
from experiments.demo.runs import RUNS, scenario

_OTHER_TROUBLE: Final = {"load.already_running", "load.no_native_module"}
"""Errors that the simulator does not avoid: a missing native module, and a running agent."""
_NO_NETWORK: Final = {"lab.no_command", "lab.no_tun", "lab.not_permitted"}


@dataclass(frozen=True)
class Where:
    """Where the transfers run, and why there.

    Attributes:
        datapath: `ebpf` (real sockets of this machine's kernel) or `sim`.
        why: Why the kernel cannot be used; empty if it is used, or if the user chose the datapath.
        fix: How to make the kernel usable; empty likewise.
    """

    datapath: str
    why: str = ""
    fix: str = ""

    @property
    def name(self) -> str:
        """The place as shown in titles."""
        return f"Linux {os.uname().release}" if self.datapath == "ebpf" else "simulated"

    def __str__(self) -> str:
        if self.datapath == "ebpf":
            return f"on real sockets of this kernel, {self.name}"
        said = "in the simulator: virtual time, no sockets"
        if self.why:
            said += f"\n  why  {self.why}\n  fix  {self.fix}" if self.fix else f"\n  why  {self.why}"
        return said


def choose(datapath: str | None) -> Where:
    """Choose where to run.

    Args:
        datapath: `ebpf` or `sim`; None for the first that works here.

    Raises:
        CcpError: `demo.datapath`, if the datapath does not exist.
        LoadError: If `ebpf` was requested and cannot run here, or an agent is already running.
    """
    if datapath is not None and (refused := registry.refusal(datapath, scenarios=True)):
        message, fix = refused
        raise CcpError("demo.datapath", message, "--datapath", fix=fix)
    if datapath == registry.SIM:
        return Where(registry.SIM)
    try:
        must_be_able()
        try_loading()
        try_network()
    except CcpError as error:
        if datapath is None and _keeps_from_the_kernel(error):
            why = error.message if error.slug == "lab.no_command" else error.why or error.message
            return Where("sim", why, error.fix)
        if error.slug == "lab.not_permitted":
            raise LoadError(*error.args) from error  # printed in one line, like all errors that prevent a run
        raise
    return Where("ebpf")


def _keeps_from_the_kernel(error: CcpError) -> bool:
    is_load = isinstance(error, LoadError | VerifierError) and error.slug not in _OTHER_TROUBLE
    return is_load or error.slug in _NO_NETWORK


def must_be_able() -> None:
    """Check whether this machine and process meet the needs of the kernel datapath.

    Raises:
        LoadError: `load.missing`, naming the first requirement that is not met.
    """
    for needed in ebpf.probe():
        if needed.required and not needed.ok:
            raise LoadError(
                "load.missing",
                "the demo cannot run here",
                why=f"{needed.name}: {needed.detail}",
                fix=needed.fix,
            )


def try_loading() -> None:
    """Load the datapath and unload it, to fail before anything is measured.

    Raises:
        LoadError: If it does not load, or an agent is running.
    """
    ebpf.load(ebpf.LoadOptions(pin_dir=PIN_DIR, max_flows=1)).close()
    ebpf.unload(PIN_DIR)


def try_network() -> None:
    """Build the network of a run and remove it, and look for iperf3, to fail before anything is measured.

    Raises:
        LabError: If the network cannot be built, or iperf3 is missing.
    """
    from experiments.netlab.emulated import emulated
    from experiments.netlab.process import which

    which("iperf3", "the demo's traffic")
    with emulated(scenario(RUNS[0], 1).network):
        pass
