"""Boot a machine, run a command in it, and read what it left."""

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
    """What became of a command.

    Attributes:
        kernel: Where it ran.
        status: Its exit status; None if the machine ended or was ended before it did.
        wall_s: Time from power on to power off [s].
        out: Folder that the machine could write to; `console.log` is what it printed.
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
        kernel: What to boot.
        userland: Disk image.
        venv: Virtual environment, mounted at /mnt/venv.
        command: For `sh`, in the checkout.
        out: The only folder that outlives the machine, mounted at /mnt/out; emptied first.
        timeout_s: When to pull the plug [s].
        cpus: Processors of the machine.
        memory_mb: Its memory [MB].
        shares: Tag -> folder that the command may mount, read only: `mount -t 9p TAG PLACE`.
        init: Which file of this folder is the machine's first process once it has its disk.

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
        # The clock of an emulated processor is steady, though the kernel cannot tell.
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
