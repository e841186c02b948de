"""Boot a machine and run a command in it."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.vm.kernels import Kernel
from scripts.vm.places import HERE, ROOT
from scripts.vm.problem import VmError


@dataclass(frozen=True)
class Run:
    """Result of a command.

    Attributes:
        kernel: Kernel of the machine.
        status: Exit status; None if the machine ended before the command.
        wall_s: Time from power on to power off [s].
        out: Output folder of the machine, with `console.log`.
    """

    kernel: Kernel
    status: int | None
    wall_s: float
    out: Path


def boot(
    kernel: Kernel,
    userland: Path,
    venv: Path,
    command: str,
    out: Path,
    *,
    timeout_s: float,
    cpus: int,
    memory_mb: int,
    shares: Mapping[str, Path],
    init: str = "guest-init.sh",
) -> Run:
    """Boot a machine with the checkout mounted read only, and run a shell command in it.

    Args:
        kernel: Kernel to boot.
        userland: Disk image.
        venv: Virtual environment, mounted at /mnt/venv.
        command: For `sh`, in the checkout.
        out: Output folder, mounted at /mnt/out; emptied first.
        timeout_s: When to stop the machine [s].
        cpus: Processors of the machine.
        memory_mb: Memory of the machine [MB].
        shares: Tag -> folder that the command may mount, read only: `mount -t 9p TAG PLACE`.
        init: File in this package that becomes the first process after the disk is mounted.

    Raises:
        VmError: If QEMU does not start.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "command").write_text(command + "\n")
    shutil.copy(HERE / init, out / "guest-init.sh")
    shared = {"checkout": (ROOT, "on"), "venv": (venv, "on"), "out": (out, "off")}
    shared |= {tag: (folder, "on") for tag, folder in shares.items()}
    args = [
        *(
            "qemu-system-x86_64",
            "-machine",
            "q35,hpet=off",
            "-cpu",
            "max",
            "-accel",
            "tcg,thread=multi,tb-size=512",
        ),
        *("-smp", str(cpus), "-m", str(memory_mb), "-nic", "none", "-display", "none", "-monitor", "none"),
        *("-no-reboot", "-serial", "stdio", "-kernel", str(kernel.image), "-initrd", str(kernel.initrd)),
        # The kernel cannot detect that an emulated processor's clock is steady.
        *("-append", "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check"),
        *("-drive", f"file={userland},if=virtio,format=raw,read-only=on", "-device", "virtio-rng-pci"),
    ]
    for tag, (folder, readonly) in shared.items():
        share = f"local,path={folder},mount_tag={tag},security_model=none,multidevs=remap,readonly={readonly}"
        args += ["-virtfs", share]
    begin_s = time.monotonic()
    with (out / "console.log").open("wb") as console:
        try:
            subprocess.run(
                args, stdin=subprocess.DEVNULL, stdout=console, stderr=console, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            console.write(f"\nhost: stopped after {timeout_s:g} s\n".encode())
    wall_s = time.monotonic() - begin_s
    if not (out / "console.log").stat().st_size:
        raise VmError("the machine printed nothing", f"Linux {kernel.version} did not start", " ".join(args))
    status = out / "status"
    return Run(kernel, int(status.read_text()) if status.exists() else None, wall_s, out)
