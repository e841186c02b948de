"""A bare Debian 12 with systemd, in namespaces on the kernel of this machine; for `scripts.try_pages`.

It has its own processes, mounts, network (through slirp4netns), control group and BPF file system. It shares
the kernel with this machine, among it the names of congestion controls. Needs root, and Debian's packages
mmdebstrap and slirp4netns.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGES: Final = "ca-certificates,curl,dbus,iproute2,procps,python3,python3-venv,sudo,systemd-sysv"
USER: Final = "user"
BOOT_S: Final = 60.0
NEEDS: Final = ("mmdebstrap", "slirp4netns", "unshare", "nsenter")

# Units that would change this machine's kernel.
_MASKED: Final = ("systemd-sysctl", "systemd-modules-load", "systemd-udevd", "systemd-udev-trigger")

_BOOT: Final = r"""
set -e
root=$1
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t bpf bpf sys/fs/bpf
mount -t tracefs tracefs sys/kernel/tracing
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 dev dev
mkdir dev/net
for device in null zero full random urandom tty net/tun; do
	touch dev/$device
	mount --bind /dev/$device dev/$device
done
mkdir -p dev/pts dev/shm .before
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs tmpfs dev/shm
for number in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${number%:*} dev/${number#*:}; done
ln -s /proc/self/fd dev/fd
ip link set lo up
pivot_root . .before
umount -l /.before
mount --make-rshared /
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
"""


def make_root(root: Path) -> None:
    """Unpack a bare Debian 12 with Python and a user who may use sudo."""
    sources = [*Path("/etc/apt/sources.list.d").glob("*.sources"), Path("/etc/apt/sources.list")][0]
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm"]
    subprocess.run([*command, str(root), str(sources)], check=True)
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / "etc/ssl/certs")
    (root / "etc/resolv.conf").write_text("nameserver 10.0.2.3\n")  # slirp4netns
    (root / "etc/hostname").write_text("debian\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost debian\n::1 localhost\n")
    add_user = ["useradd", "--create-home", "--uid", "1000", "--shell", "/bin/bash", USER]
    subprocess.run(["chroot", str(root), *add_user], check=True)
    (root / f"etc/sudoers.d/{USER}").write_text(
        f"{USER} ALL=(ALL) NOPASSWD: ALL\nDefaults env_keep += PIP_CERT\n"
    )
    for unit in _MASKED:
        (root / f"etc/systemd/system/{unit}.service").symlink_to("/dev/null")


@dataclass(frozen=True)
class Spent:
    """Time.

    Attributes:
        seconds: Elapsed time [s].
        cpu_s: Processor time of a machine [s], which depends less on what else the host does.
    """

    seconds: float = 0.0
    cpu_s: float = 0.0

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.seconds - other.seconds, self.cpu_s - other.cpu_s)

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.seconds + other.seconds, self.cpu_s + other.cpu_s)

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s ({self.cpu_s:.1f} s of CPU)"


NOTHING: Final = Spent()


class Machine:
    """A running machine.

    Attributes:
        root: Its root file system.
        pid: Its first process.
    """

    def __init__(self, root: Path, pid: int, group: Path) -> None:
        self.root = root
        self.pid = pid
        self._group = group

    def now(self) -> Spent:
        """Return the time since some moment in the past."""
        usage = dict(line.split() for line in (self._group / "cpu.stat").read_text().splitlines())
        return Spent(time.monotonic(), int(usage["usage_usec"]) / 1e6)

    def command(self, *words: str) -> list[str]:
        """Return the command that runs a command there, as root."""
        return ["nsenter", f"--target={self.pid}", "--all", "--", *words]

    def shell(self, script: str) -> list[str]:
        """Return the command that runs a script there as an interactive user would, on this terminal."""
        environment = {
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PIP_CERT": "/etc/ssl/certs/ca-certificates.crt",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": f"/home/{USER}",
            "USER": USER,
            "SHELL": "/bin/bash",
        }
        options = [
            "--quiet",
            "--description=pasted",
            "--pty",
            "--wait",
            "--collect",
            f"--uid={USER}",
            f"--gid={USER}",
        ]
        options += ["--property=KillMode=process", f"--working-directory=/home/{USER}"]
        options += [f"--setenv={name}={value}" for name, value in environment.items()]
        return self.command("systemd-run", *options, "bash", "-c", script)

    def give(self, path: str, text: str) -> None:
        """Write a file; a relative path is one in the user's home directory."""
        target = self.root / f"home/{USER}" / path if not path.startswith("/") else self.root / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        if not path.startswith("/"):
            shutil.chown(target, 1000, 1000)

    def put(self, file: Path) -> None:
        """Copy a file to the user's home directory."""
        target = self.root / f"home/{USER}" / file.name
        shutil.copy(file, target)
        shutil.chown(target, 1000, 1000)

    def take(self, path: str) -> str:
        """Return the text of a file in the user's home directory."""
        return (self.root / f"home/{USER}" / path).read_text()


@contextlib.contextmanager
def machine(base: Path) -> Iterator[Machine]:
    """Yield a machine with a copy of a root file system, for a `with` block."""
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="ccplane-pages.", dir="/var/tmp"))
        )
        root = folder / "root"
        subprocess.run(["cp", "-a", str(base), str(root)], check=True)
        group = stack.enter_context(_control_group(folder))
        # The shell joins the group before it enters a namespace whose root the group then is.
        enter = (
            f"echo $$ >{group}/cgroup.procs; exec setpriv --pdeathsig=KILL unshare --mount --pid --uts --ipc "
        )
        enter += '--cgroup --net --fork --kill-child=SIGKILL -- sh -c "$1" boot "$2"'
        log = stack.enter_context((folder / "boot.log").open("w+"))
        boot = subprocess.Popen(
            ["sh", "-c", enter, "sh", _BOOT, str(root)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        stack.callback(boot.wait)
        try:
            one = Machine(root, _first_process(boot), group)
        except BaseException:
            boot.kill()
            print((folder / "boot.log").read_text(), file=sys.stderr)
            raise
        stack.callback(os.kill, one.pid, signal.SIGKILL)  # and with it all its processes
        stack.enter_context(_network(one.pid))
        yield one


@contextlib.contextmanager
def _control_group(folder: Path) -> Iterator[Path]:
    hierarchy = folder / "cgroup"
    hierarchy.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "cgroup2", str(hierarchy)], check=True)
    group = hierarchy / folder.name
    group.mkdir()
    try:
        yield group
    finally:
        for inner in [*sorted(group.rglob("*/"), reverse=True), group]:
            inner.rmdir()
        subprocess.run(["umount", str(hierarchy)], check=True)


def _first_process(boot: subprocess.Popen[bytes]) -> int:
    """Wait until systemd has started everything, and return its process."""
    deadline_s = time.monotonic() + BOOT_S
    children = Path(f"/proc/{boot.pid}/task/{boot.pid}/children")
    while boot.poll() is None and time.monotonic() < deadline_s:
        for pid in children.read_text().split():
            if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
                asked = ["nsenter", f"--target={pid}", "--all", "--", "systemctl", "is-system-running"]
                said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
                if said in ("running", "degraded"):
                    return int(pid)
        time.sleep(0.2)
    raise RuntimeError(f"the machine did not start within {BOOT_S:.0f} s")


@contextlib.contextmanager
def _network(pid: int) -> Iterator[None]:
    ready, reporting = os.pipe()
    command = ["slirp4netns", "--configure", "--mtu=65520", f"--ready-fd={reporting}", str(pid), "tap0"]
    process = subprocess.Popen(
        command, pass_fds=(reporting,), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(reporting)
    try:
        if not os.read(ready, 1):
            raise RuntimeError("slirp4netns did not start")
        yield
    finally:
        os.close(ready)
        process.kill()
        process.wait()
