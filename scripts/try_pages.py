"""`make test-pages`: run the `sh` and `console` blocks of README and tutorials in a bare Debian 12.

A block is run as it would be pasted: by an interactive user with sudo, in a new shell, in the user's home
directory, with the wheel in it. Each user's path through README has a machine, where its blocks follow each
other; so has a page that installs `ccp` itself; the tutorials, in order, share one. In `console` blocks,
commands follow a `$`. A comment in front of a block says what differs:

    <!-- not run: REASON -->     the block cannot run there
    <!-- runs on: TEXT -->       the block does not end by itself. It has started once its output has TEXT,
                                 and gets Ctrl-C before the commands of the next section
    <!-- file: NAME -->          the block, of any kind, is the content of a file
    <!-- edit: NAME; TEXT -->    the block, a diff, is applied to a file while a block runs on: the one
                                 before, else the next one. After the edit, its output has TEXT

A block passes if its shell exits with 0, or was ended by Ctrl-C. Needs root, and the wheel that `make wheel`
puts into dist. `scripts.bare_machine` makes the machines.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import fcntl
import itertools
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from scripts.bare_machine import NEEDS, NOTHING, Machine, Spent, machine, make_root

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (
    "README.md",
    "docs/writing-an-algorithm.md",
    "docs/experiments.md",
    "docs/server.md",
    "docs/mininet-wifi.md",
)
PATHS: Final = {
    "live editing": ("Get it", "The first minute"),
    "notebook": ("Experiment",),
    "Wi-Fi": ("In-band telemetry over Wi-Fi",),
    "operator": ("Run it on a server",),
}
"""User -> sections of README that the user pastes, on a new machine."""
INSTALLED: Final = "Get it"
"""Section of README that installs `ccp`, for the tutorials."""
INSTALLS: Final = ("docs/server.md",)
"""Pages that install `ccp` themselves."""
SHELLS: Final = ("sh", "console")
TIMEOUT_S: Final = 900.0
EFFECT_S: Final = 120.0
"""Maximum time until an edit has its effect [s]."""
CTRL_C: Final = b"\x03"
ENDED_BY_CTRL_C: Final = {0, 130, 128 + signal.SIGINT, 255}

_OWN_MOUNTS: Final = "CCPLANE_IN_OWN_MOUNTS"
_BLOCK: Final = re.compile(
    r"^(?:#{2,4} (?P<heading>[^\n]+)|(?:<!-- (?P<mark>[^>]*?) -->\n+)?```(?P<kind>\w*)\n(?P<text>.*?)^```)$",
    re.MULTILINE | re.DOTALL,
)
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


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

    def _after(self, word: str) -> str:
        return self.mark.removeprefix(f"{word}: ") if self.mark.startswith(f"{word}: ") else ""

    @property
    def file(self) -> str:
        """Name of the file whose content the block is; empty if it is none."""
        return self._after("file")

    @property
    def edit(self) -> tuple[str, str] | None:
        """File that the block changes, and what a running command then prints."""
        name, separator, shown = self._after("edit").partition("; ")
        return (name, shown) if separator else None

    @property
    def why_not(self) -> str:
        """Why the block is not run; empty if it is."""
        return self._after("not run")

    @property
    def runs_on(self) -> str:
        """What the block prints once it has started, if only Ctrl-C ends it; else empty."""
        return self._after("runs on")

    @property
    def commands(self) -> int:
        """Number of commands; a here document and indented lines belong to the command before."""
        if self.kind not in SHELLS:
            return 0
        text = re.sub(r"(<<'?(\w+)'?.*?\n).*?^\2$", r"\1", self.text, flags=re.MULTILINE | re.DOTALL)
        return sum(
            bool(line.strip()) and not line.startswith(("#", " ", "done")) for line in text.splitlines()
        )


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
        if kind in SHELLS or block.file or block.edit:
            found.append(block)
    return found


@dataclass(frozen=True)
class Outcome:
    """What became of a block.

    Attributes:
        block: The block.
        spent: How long it took, until it ended or had started.
        status: Exit status of its shell; None if it was not run.
        missing: What its output should have had, and did not.
    """

    block: Block
    spent: Spent = NOTHING
    status: int | None = None
    missing: str = ""

    @property
    def passed(self) -> bool:
        """Whether the block did what it should."""
        expected = ENDED_BY_CTRL_C if self.block.runs_on else {0}
        return self.status is None or (self.status in expected and not self.missing)

    def __str__(self) -> str:
        what = f"not run: {self.block.why_not}" if self.status is None else f"exit {self.status}"
        if self.missing:
            what += f", its output never had `{self.missing}`"
        count = "an edit" if self.block.edit else f"{self.block.commands} commands"
        return f"{self.spent!s:>25}  {count}  {self.block.section}: {what}"


class Shell:
    """A block's shell on a terminal of its own, in a machine."""

    def __init__(self, where: Machine, block: Block) -> None:
        self._machine = where
        self._began = where.now()
        self.block = block
        self.spent = NOTHING
        self.missing = ""
        self._said = ""
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        terminal, own_end = os.openpty()
        fcntl.ioctl(own_end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))
        self._terminal = terminal
        # Each line is pasted, so a failing line ends the block.
        command = where.shell(f"set -e\n{block.text}")
        self._process = subprocess.Popen(command, preexec_fn=lambda: os.login_tty(own_end))
        os.close(own_end)

    def wait(self, timeout_s: float, until: str = "") -> int | None:
        """Copy its output until it ends, or has a text, from now on; None if it has not ended by then."""
        deadline_s = time.monotonic() + timeout_s
        self._said = ""
        while time.monotonic() < deadline_s:
            ready, _, _ = select.select([self._terminal], [], [], 0.2)
            try:
                text = os.read(self._terminal, 65536) if ready else b""
            except OSError:  # all ends of the terminal are closed
                break
            sys.stdout.buffer.write(text)
            sys.stdout.flush()
            self._said += self._text.decode(text)
            if until and until in _ESCAPES.sub("", self._said):
                self.spent = self._machine.now() - self._began
                return None
            if not ready and self._process.poll() is not None:
                break
        else:
            self.missing = until
            self.spent = self._machine.now() - self._began
            return None
        status = self._process.wait()
        self.spent = self._machine.now() - self._began
        return status

    def interrupt(self) -> Outcome:
        """End it as Ctrl-C does, repeatedly if need be (JupyterLab asks)."""
        spent, missing = self.spent, self.missing
        for _ in range(15):
            with contextlib.suppress(OSError):
                os.write(self._terminal, CTRL_C)
            if (status := self.wait(3)) is not None:
                break
        else:
            self._process.kill()
            status = self._process.wait()
        return Outcome(self.block, spent, status, missing)


class Run:
    """A run of blocks, one after the other, on a machine."""

    def __init__(self, where: Machine) -> None:
        self._machine = where
        self._running: list[Shell] = []
        self._edits: list[Block] = []
        self.outcomes: list[Outcome] = []

    def blocks(self, page: Sequence[Block]) -> list[Outcome]:
        """Run blocks; return what became of each."""
        for block in page:
            if block.edit:
                self._edits.append(block)
                self._edit()
            elif block.file:
                self._machine.give(block.file, block.text)
            elif block.why_not:
                self.outcomes.append(Outcome(block))
            else:
                if self._running and self._running[-1].block.section != block.section:
                    self._end_all()
                self._command(block)
        self._end_all()
        self.outcomes += (Outcome(block, NOTHING, 1, "a command that runs on") for block in self._edits)
        return self.outcomes

    def _command(self, block: Block) -> None:
        print(f"\n{time.strftime('%H:%M:%S')} $ {block.text}", flush=True)
        shell = Shell(self._machine, block)
        status = shell.wait(TIMEOUT_S, block.runs_on)
        if status is None and block.runs_on:
            self._running.append(shell)
            self._edit()
        elif status is None:
            self.outcomes.append(shell.interrupt())
        else:
            self.outcomes.append(Outcome(block, shell.spent, status, block.runs_on))

    def _edit(self) -> None:
        """Apply the edits that wait, if a command runs on."""
        while self._running and self._edits:
            block = self._edits.pop(0)
            assert block.edit
            name, shown = block.edit
            print(f"\n{time.strftime('%H:%M:%S')} edits {name}:\n{block.text}", flush=True)
            self._machine.give(name, edited(self._machine.take(name), block.text))
            began = self._machine.now()
            status = self._running[-1].wait(EFFECT_S, shown)
            missing = shown if status is not None else self._running[-1].missing
            self.outcomes.append(Outcome(block, self._machine.now() - began, 0, missing))

    def _end_all(self) -> None:
        while self._running:
            self.outcomes.append(self._running.pop().interrupt())


def edited(text: str, diff: str) -> str:
    """Apply a diff without context: each line with `-` becomes the line with `+` that follows it."""
    lines = diff.splitlines()
    for before, after in itertools.pairwise(lines):
        if before.startswith("-") and after.startswith("+"):
            if text.count(f"{before[1:]}\n") != 1:
                raise ValueError(f"the file does not have this line exactly once: {before[1:]}")
            text = text.replace(f"{before[1:]}\n", f"{after[1:]}\n")
    return text


def without_kernel(block: Block) -> Block:
    """Return a block; if it runs `sudo ccp`, marked as not run."""
    return replace(block, mark="not run: --no-kernel") if "sudo ccp" in block.text else block


def runs_of(pages: Sequence[str]) -> Iterator[tuple[str, list[Block]]]:
    """Yield the runs of pages, each on a machine of its own: its name, and its blocks."""
    installed: list[Block] = []
    tutorials: list[Block] = []
    for page in pages:
        found = blocks((ROOT / page).read_text())
        if page == "README.md":
            yield from paths_of(found)
        elif page in INSTALLS or all(block.why_not for block in found):
            yield page, found
        else:
            installed = [one for one in blocks((ROOT / "README.md").read_text()) if one.section == INSTALLED]
            tutorials += found
    if tutorials:
        yield "tutorials", [*installed, *tutorials]


def paths_of(readme: Sequence[Block]) -> Iterator[tuple[str, list[Block]]]:
    """Yield the runs of README: the users' paths. After the first one, sections of no path follow."""
    of_paths = {section for sections in PATHS.values() for section in sections}
    rest = [block for block in readme if block.section not in of_paths and not block.edit]
    edits = [block for block in readme if block.edit]
    for user, sections in PATHS.items():
        own = [block for block in readme if block.section in sections]
        yield f"README.md, {user}", [*edits, *own, *rest]
        edits, rest = [], []


def show(name: str, outcomes: Sequence[Outcome]) -> None:
    """Print what became of each block, and the time of a user's path."""
    print(f"\n== {name}")
    for one in outcomes:
        print(one if one.passed else f"{one}  FAILED")
    user = name.rpartition(", ")[2]
    if user in PATHS:
        sections = PATHS[user]
        own = [one for one in outcomes if one.block.section in sections or one.block.edit]
    else:
        own = [one for one in outcomes if one.status is not None]
    commands = sum(one.block.commands for one in own if not one.block.edit)
    print(f"{user}: {commands} commands, {sum((one.spent for one in own), NOTHING)}")


def main() -> int:
    """Run the pages; return 1 if a block fails."""
    parser = argparse.ArgumentParser(prog="python -m scripts.try_pages", description=__doc__)
    parser.add_argument("pages", nargs="*", default=PAGES, help="pages; default: README and the tutorials")
    parser.add_argument("--no-kernel", action="store_true", help="leave out blocks that run `sudo ccp`")
    parser.add_argument(
        "--only", default="", help="only the runs whose name has this text, such as `notebook`"
    )
    parser.add_argument("--base", type=Path, help="folder for the root file system, which is used again")
    asked = parser.parse_args()
    wheels = list((ROOT / "dist").glob(f"ccplane-*_{os.uname().machine}.whl"))
    lacking = [name for name in NEEDS if not shutil.which(name)]
    if os.geteuid() != 0 or not wheels or lacking:
        sys.exit("this needs root, a wheel in dist (`make wheel`), and Debian's mmdebstrap and slirp4netns")
    if not os.environ.get(_OWN_MOUNTS):
        os.environ[_OWN_MOUNTS] = "yes"
        again = [sys.executable, "-m", "scripts.try_pages", *sys.argv[1:]]
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", *again])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # machines end
    found = {}
    with tempfile.TemporaryDirectory(prefix="ccplane-bare.", dir="/var/tmp") as folder:
        base = asked.base or Path(folder) / "root"
        if not base.exists():
            make_root(base)
        for name, own in runs_of(asked.pages):
            if asked.only not in name:
                continue
            if all(one.why_not for one in own):
                found[name] = [Outcome(one) for one in own]
                continue
            with machine(base) as where:
                where.put(wheels[0])
                own = [without_kernel(one) if asked.no_kernel else one for one in own]
                found[name] = Run(where).blocks(own)
    for name, outcomes in found.items():
        show(name, outcomes)
    return int(not all(one.passed for outcomes in found.values() for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
