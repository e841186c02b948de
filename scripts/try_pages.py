"""`make test-pages`: run the `sh` and `console` blocks of README and tutorials in a bare Debian 12.

A block is run as it would be pasted: by an interactive user with sudo, in a new shell, in the user's home
directory, with the wheel next to it. Blocks of a page follow each other on one machine; each page has its
own. In `console` blocks, commands follow a `$`. A comment in front of a block says what differs:

    <!-- not run: REASON -->     the block cannot run in such a root file system
    <!-- runs on -->             the block does not end by itself; it gets Ctrl-C at the end of its section
    <!-- file: NAME -->          the block, of any kind, is the content of a file

A block passes if its shell exits with 0, or was ended by Ctrl-C. The root file system shares the kernel of
this machine. Needs root, and the wheel that `make wheel` puts into dist.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ("README.md", "docs/writing-an-algorithm.md", "docs/server.md")
PATHS: Final = {
    "live editing": ("Get it", "The first minute"),
    "notebook": ("Get it", "Experiment"),
    "Wi-Fi": ("In-band telemetry over Wi-Fi",),
    "operator": ("Get it", "Run it on a server"),
}
"""User -> sections of README that the user pastes."""
PACKAGES: Final = "ca-certificates,curl,iperf3,procps,python3,python3-venv,sudo"
USER: Final = "user"
TIMEOUT_S: Final = 900.0
SETTLE_S: Final = 20.0
"""Time after which a block that runs on is taken to have started [s]."""
CTRL_C: Final = b"\x03"
ENDED_BY_CTRL_C: Final = {0, 130, -signal.SIGINT}

_OWN_MOUNTS: Final = "CCPLANE_IN_OWN_MOUNTS"
_BLOCK: Final = re.compile(
    r"^(?:#{2,4} (?P<heading>[^\n]+)|(?:<!-- (?P<mark>[^>]*?) -->\n+)?```(?P<kind>\w*)\n(?P<text>.*?)^```)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        section: Heading above it.
        kind: Language of the fence.
        text: Its lines.
        mark: Text of the comment in front of it.
    """

    section: str
    kind: str
    text: str
    mark: str = ""

    @property
    def file(self) -> str:
        """Name of the file whose content the block is; empty if it is none."""
        return self.mark.removeprefix("file: ") if self.mark.startswith("file: ") else ""

    @property
    def why_not(self) -> str:
        """Why the block is not run; empty if it is."""
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run: ") else ""

    @property
    def runs_on(self) -> bool:
        """Whether the block only ends with Ctrl-C."""
        return self.mark == "runs on"

    @property
    def commands(self) -> int:
        """Number of lines that are commands."""
        return sum(bool(line.strip()) and not line.startswith(("#", " ")) for line in self.text.splitlines())


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page that are run, or written to a file, in order."""
    found, section = [], ""
    for match in _BLOCK.finditer(page):
        if match["heading"]:
            section = match["heading"]
            continue
        kind, text = match["kind"], match["text"]
        if kind == "console":
            text = "".join(f"{line[2:]}\n" for line in text.splitlines() if line.startswith("$ "))
        block = Block(section, kind, text, match["mark"] or "")
        if kind in ("sh", "console") or block.file:
            found.append(block)
    return found


@dataclass(frozen=True)
class Outcome:
    """What became of a block.

    Attributes:
        block: The block.
        seconds: How long it took, until it ended or had settled [s].
        status: Exit status of its shell; None if it was not run.
    """

    block: Block
    seconds: float = 0.0
    status: int | None = None

    @property
    def passed(self) -> bool:
        """Whether the block did what it should."""
        return self.status is None or self.status in (ENDED_BY_CTRL_C if self.block.runs_on else {0})

    def __str__(self) -> str:
        what = f"not run: {self.block.why_not}" if self.status is None else f"exit {self.status}"
        return f"{self.seconds:7.1f} s  {self.block.commands} commands  {self.block.section}: {what}"


class Shell:
    """A block's shell on a terminal of its own, in a root file system."""

    def __init__(self, root: Path, block: Block) -> None:
        self._began_s = time.monotonic()
        self.block = block
        self.seconds = 0.0
        terminal, own_end = os.openpty()
        self._terminal = terminal
        # Each line is pasted, so a failing line ends the block.
        script = f"cd; set -e\n{block.text}"
        command = ["chroot", str(root), "/usr/bin/env", "-i", "TERM=xterm-256color", "LANG=C.UTF-8"]
        command += ["PIP_CERT=/etc/ssl/certs/ca-certificates.crt", "PATH=/usr/local/bin:/usr/bin:/bin"]
        command += ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups"]
        command += ["env", f"HOME=/home/{USER}", f"USER={USER}", "bash", "-c", script]
        self._process = subprocess.Popen(command, preexec_fn=lambda: os.login_tty(own_end))
        os.close(own_end)

    def wait(self, timeout_s: float) -> int | None:
        """Copy its output until it ends; None if it has not ended by then."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            ready, _, _ = select.select([self._terminal], [], [], 0.2)
            try:
                text = os.read(self._terminal, 65536) if ready else b""
            except OSError:  # all ends of the terminal are closed
                break
            sys.stdout.buffer.write(text)
            sys.stdout.flush()
            if not ready and self._process.poll() is not None:
                break
        else:
            self.seconds = time.monotonic() - self._began_s
            return None
        status = self._process.wait()
        self.seconds = time.monotonic() - self._began_s
        return status

    def interrupt(self) -> int:
        """End it as Ctrl-C does, repeatedly if need be (JupyterLab asks), and return its status."""
        started_s = self.seconds
        for _ in range(15):
            with contextlib.suppress(OSError):
                os.write(self._terminal, CTRL_C)
            if (status := self.wait(3)) is not None:
                break
        else:
            self._process.kill()
            status = self._process.wait()
        self.seconds = started_s
        return status


def without_kernel(block: Block) -> Block:
    """Return a block; if it runs `sudo ccp`, marked as not run."""
    return replace(block, mark="not run: --no-kernel") if "sudo ccp" in block.text else block


def run(root: Path, page: Sequence[Block]) -> list[Outcome]:
    """Run the blocks of a page one after the other."""
    outcomes: list[Outcome] = []
    running: list[Shell] = []

    def end_all() -> None:
        while running:
            shell = running.pop()
            status = shell.interrupt()
            outcomes.append(Outcome(shell.block, shell.seconds, status))

    for block in page:
        if running and running[-1].block.section != block.section:
            end_all()
        if block.file:
            path = root / f"home/{USER}" / block.file
            path.write_text(block.text)
            shutil.chown(path, 1000, 1000)
            continue
        if block.why_not:
            outcomes.append(Outcome(block))
            continue
        print(f"\n{time.strftime('%H:%M:%S')} $ {block.text}", flush=True)
        shell = Shell(root, block)
        status = shell.wait(SETTLE_S if block.runs_on else TIMEOUT_S)
        if status is None and block.runs_on:
            running.append(shell)
        else:
            outcomes.append(Outcome(block, shell.seconds, shell.interrupt() if status is None else status))
    end_all()
    return outcomes


@contextlib.contextmanager
def machine(base: Path, wheel: Path) -> Iterator[Path]:
    """Yield a root file system with a user who has the wheel, for a `with` block."""
    with tempfile.TemporaryDirectory(prefix="ccplane-pages.", dir="/var/tmp") as folder:
        root = Path(folder) / "root"
        subprocess.run(["cp", "-a", str(base), str(root)], check=True)
        home = root / f"home/{USER}"
        shutil.copy(wheel, home)
        shutil.chown(home / wheel.name, 1000, 1000)
        mounts = [["-t", "proc", "proc", "proc"], *(["--rbind", f"/{one}", one] for one in ("dev", "sys"))]
        try:
            for *what, place in mounts:
                subprocess.run(["mount", *what, str(root / place)], check=True)
            yield root
        finally:
            for *_, place in reversed(mounts):
                subprocess.run(["umount", "--lazy", "--recursive", str(root / place)], check=False)


def make_base(root: Path) -> None:
    """Unpack a bare Debian 12 with Python and a user who may use sudo."""
    sources = [*Path("/etc/apt/sources.list.d").glob("*.sources"), Path("/etc/apt/sources.list")][0]
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm"]
    subprocess.run([*command, str(root), str(sources)], check=True)
    for file in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        shutil.copy(f"/{file}", root / file)
    subprocess.run(["chroot", root, "useradd", "--create-home", "--uid", "1000", USER], check=True)
    (root / f"etc/sudoers.d/{USER}").write_text(
        f"{USER} ALL=(ALL) NOPASSWD: ALL\nDefaults env_keep += PIP_CERT\n"
    )


def show(page: str, outcomes: Sequence[Outcome]) -> None:
    """Print what became of each block, and the time of each user's path."""
    print(f"\n== {page}")
    for one in outcomes:
        print(one if one.passed else f"{one}  FAILED")
    if page == "README.md":
        for user, sections in PATHS.items():
            own = [one for one in outcomes if one.block.section in sections and one.status is not None]
            commands = sum(one.block.commands for one in own)
            print(f"{user}: {commands} commands, {sum(one.seconds for one in own):.0f} s")


def main() -> int:
    """Run the pages; return 1 if a block fails."""
    parser = argparse.ArgumentParser(prog="python -m scripts.try_pages", description=__doc__)
    parser.add_argument("pages", nargs="*", default=PAGES, help="pages; default: README and the tutorials")
    parser.add_argument("--no-kernel", action="store_true", help="leave out blocks that run `sudo ccp`")
    asked = parser.parse_args()
    wheels = list((ROOT / "dist").glob(f"ccplane-*_{os.uname().machine}.whl"))
    if os.geteuid() != 0 or not wheels or not shutil.which("mmdebstrap"):
        sys.exit("this needs root, mmdebstrap (Debian's package), and a wheel in dist (`make wheel`)")
    if not os.environ.get(_OWN_MOUNTS):
        os.environ[_OWN_MOUNTS] = "yes"
        again = [sys.executable, "-m", "scripts.try_pages", *sys.argv[1:]]
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", *again])
    failed = False
    with tempfile.TemporaryDirectory(prefix="ccplane-bare.", dir="/var/tmp") as folder:
        base = Path(folder) / "root"
        make_base(base)
        found = {}
        for page in asked.pages:
            with machine(base, wheels[0]) as root:
                own = blocks((ROOT / page).read_text())
                found[page] = run(root, [without_kernel(one) if asked.no_kernel else one for one in own])
    for page, outcomes in found.items():
        show(page, outcomes)
        failed |= not all(one.passed for one in outcomes)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
