"""What every machine is made of, and the options that say so: shared by the commands that boot one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from scripts.vm import userland
from scripts.vm.debian import Mirrors, find_mirrors
from scripts.vm.kernels import Kernel, make_kernel
from scripts.vm.machine import Run, boot
from scripts.vm.places import locked_cache
from scripts.vm.problem import need_programs

PROGRAMS = ("qemu-system-x86_64", "mmdebstrap", "genext2fs", "depmod", "dpkg-deb")
"""`scripts/setup-vm.sh` installs them."""


def add_options(parser: argparse.ArgumentParser, *, timeout_s: float) -> None:
    """Add the options of all commands that boot machines.

    Args:
        parser: To which.
        timeout_s: How long a machine may run, if nobody says otherwise [s].
    """
    parser.add_argument("--command", help="run this shell command instead, and show its output")
    parser.add_argument("--update", action="store_true", help="fetch userland and kernels anew")
    parser.add_argument("--mirror", help="address of a Debian archive, where this machine is not Debian")
    parser.add_argument("--timeout", type=float, default=timeout_s, metavar="S", help="for each machine [s]")
    parser.add_argument("--cpus", type=int, default=min(4, os.cpu_count() or 1), help="of each machine")
    parser.add_argument("--memory", type=int, default=3072, metavar="MB", help="of each machine")


@dataclass(frozen=True)
class Parts:
    """All but the kernel, and the options that a machine is booted with.

    Attributes:
        console: Where progress is shown.
        options: What the command line said; `add_options` has its names.
        mirrors: Where packages come from.
        disk: Disk image with the userland.
        busybox: For the first file system.
        venv: Virtual environment for the userland's Python.
        needs_headers: Whether kernels come with their headers, where these are of use.
    """

    console: Console
    options: argparse.Namespace
    mirrors: Mirrors
    disk: Path
    busybox: Path
    venv: Path
    needs_headers: bool

    def run(
        self,
        kernel_name: str,
        command: str,
        out: Path,
        *,
        shares: Mapping[str, Path] = {},
        init: str = "guest-init.sh",
    ) -> Run:
        """Boot a kernel, fetched when it is not there, and run a command in the checkout.

        Args:
            kernel_name: A key of `kernels.KERNELS`.
            command: For `sh`; one of the command line goes first.
            out: Folder for what the machine leaves; emptied first.
            shares: More folders, as `boot` has them.
            init: Its first process, as `boot` has it.

        Raises:
            VmError: If there is no such kernel, or QEMU does not start.
        """
        kernel = self._kernel(kernel_name)
        if kernel.headers is not None:
            shares = {**shares, "headers": kernel.headers}
        log = os.path.relpath(out / "console.log")
        with self.console.status(f"running on Linux {kernel.version}; see {log}"):
            run = boot(
                kernel,
                self.disk,
                self.venv,
                self.options.command or command,
                out,
                timeout_s=self.options.timeout,
                cpus=self.options.cpus,
                memory_mb=self.options.memory,
                shares=shares,
                init=init,
            )
        if run.status != 0 or self.options.command:
            said = (run.out / "console.log").read_text(errors="replace")
            self.console.print(said[-20000:], markup=False)
        return run

    def _kernel(self, name: str) -> Kernel:
        with self.console.status(f"kernel {name}"), locked_cache():
            options = self.options
            return make_kernel(
                name, self.mirrors, self.busybox, update=options.update, headers=self.needs_headers
            )


def gather(options: argparse.Namespace, packages: Sequence[str], *, needs_headers: bool = False) -> Parts:
    """Return the parts of a machine; what is not there is fetched.

    Args:
        options: Those of `add_options`.
        packages: Debian packages of the userland, beside those that every one has.
        needs_headers: Whether kernels come with their headers, where these are of use.

    Raises:
        VmError: If a program is missing here, or something cannot be fetched.
    """
    need_programs(PROGRAMS)
    console = Console(highlight=False)
    mirrors = find_mirrors(options.mirror)
    release = userland.choose_userland()
    with locked_cache():
        with console.status(f"a small Debian {release.suite}"):
            disk = userland.make_disk(release, mirrors, packages, update=options.update)
            busybox = userland.make_busybox(release, mirrors)
        with console.status("Python packages"):
            venv = userland.make_venv(release)
    return Parts(console, options, mirrors, disk, busybox, venv, needs_headers)
