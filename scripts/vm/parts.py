"""Parts of machines, and the options of all commands that boot one."""

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
"""Required programs; `scripts/setup-vm.sh` installs them."""


def add_options(parser: argparse.ArgumentParser, *, timeout_s: float) -> None:
    """Add the options of all commands that boot machines; `timeout_s` is the default timeout [s]."""
    parser.add_argument("--command", help="run this shell command instead, and print its output")
    parser.add_argument("--update", action="store_true", help="fetch userland and kernels again")
    parser.add_argument("--mirror", help="address of a Debian archive, if this machine is not Debian")
    parser.add_argument(
        "--timeout", type=float, default=timeout_s, metavar="S", help="timeout of each machine, in seconds"
    )
    parser.add_argument(
        "--cpus", type=int, default=min(4, os.cpu_count() or 1), help="processors of each machine"
    )
    parser.add_argument("--memory", type=int, default=3072, metavar="MB", help="memory of each machine")


@dataclass(frozen=True)
class Parts:
    """Everything but the kernel that a machine needs.

    Attributes:
        console: Console for progress.
        options: Options of `add_options`.
        mirrors: Mirrors of packages.
        disk: Disk image with the userland.
        busybox: Busybox for the initial file system.
        venv: Virtual environment for the userland's Python.
        needs_headers: Whether to fetch headers of kernels.
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
        """Boot a kernel of `kernels.KERNELS`, and run a command (or that of --command) in the checkout.

        Arguments as `boot`.

        Raises:
            VmError: If the kernel cannot be fetched, or QEMU does not start.
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


def gather(
    options: argparse.Namespace,
    packages: Sequence[str],
    *,
    needs_headers: bool = False,
    with_tests: bool = True,
) -> Parts:
    """Return the parts of a machine, and fetch missing ones; arguments as `Parts` and `userland.make_venv`.

    Raises:
        VmError: If a program is missing, or something cannot be fetched.
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
            venv = userland.make_venv(release, with_tests=with_tests)
    return Parts(console, options, mirrors, disk, busybox, venv, needs_headers)
