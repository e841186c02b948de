"""Other builds of ccplane, for tests of upgrades: its sources, changed in one place, compiled.

`python -m tests.kernel.building` makes all of them: compiling takes longer than a test may.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path as FilePath

ROOT = FilePath(__file__).parents[2]
PLACE = ROOT / "out" / "upgrade"
"""Where they stay: another time only what has changed is compiled."""

SOURCES = [
    "broker",
    "ccp_algs",
    "ccplane",
    "experiments",
    "native",
    "telemetry",
    "scripts",
]
FILES = ["pyproject.toml", "README.md", "LICENSE", "LICENSE-APACHE", "LICENSE-GPL-2.0", "LICENSE-MIT"]

PROGRAMS = ("native/ccp-bpf/src/bpf/law.h", "slack_us < 4000", "slack_us < 4001")
"""Another constant in a program: the layout of the maps stays."""
LAYOUT = ("native/ccp-bpf/src/bpf/intf.h", "struct ccp_flow {\n", "struct ccp_flow {\n\t__u64 added;\n")
"""Another field in what they hold."""


def built(name: str, change: tuple[str, str, str]) -> FilePath:
    """Return the folder to import another build from.

    Args:
        name: Of the folder.
        change: A file, what stands there, and what stands there instead.
    """
    place = PLACE / name
    file, before, after = change
    text = (ROOT / file).read_text()
    assert text.count(before) == 1
    changed = text.replace(before, after)
    is_there = (place / file).exists() and (place / file).read_text() == changed
    same = [FilePath(file).name] if is_there else []  # a new time would have it compiled again
    for folder in SOURCES:
        shutil.copytree(
            ROOT / folder,
            place / folder,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("target", "__pycache__", "*.so", *same),
        )
    for one in FILES:
        shutil.copy2(ROOT / one, place / one)
    if not is_there:
        (place / file).write_text(changed)
    if not (place / ".venv").is_symlink():
        (place / ".venv").symlink_to((ROOT / ".venv").resolve())
    # A target of its own: cargo would take another copy's crates for this one's.
    path = f"{FilePath.home()}/.cargo/bin:{os.environ['PATH']}"
    done = subprocess.run(
        ["scripts/build.sh", "--skip-install"],
        cwd=place,
        env={**os.environ, "PATH": path, "CARGO_TARGET_DIR": str(place / "target")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return place


if __name__ == "__main__":
    for name, change in (("programs", PROGRAMS), ("layout", LAYOUT)):
        print(f"another build, for tests of upgrades: {built(name, change)}")
