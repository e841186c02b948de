"""Other revisions of ccplane, checked out and built for comparisons with this one.

A revision is in `.cache/against/SHA` and is built once. All revisions share compiled dependencies, so only
one build runs at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from experiments.bench.errors import BenchError

ROOT: Final = Path(__file__).parents[2]
"""Folder from which this ccplane was imported."""
CACHE: Final = Path(".cache", "against")
_LIBRARY: Final = Path("release", "lib_native.so")
_TAIL_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class Build:
    """A build of ccplane.

    Attributes:
        name: Name for messages.
        packages: Folder to import it from.
    """

    name: str
    packages: Path


def this_build() -> Build:
    """Return the running build."""
    return Build("this", ROOT)


def build_of(revision: str, reported: Callable[[str], None], *, repository: Path = ROOT) -> Build:
    """Return a revision, checked out and built; the first build takes minutes.

    Raises:
        BenchError: `bench.unknown_revision` or `bench.build_failed`.
    """
    sha = _sha_of(revision, repository)
    cache = repository / CACHE
    packages = cache / sha
    build = Build(f"{revision} ({sha[:10]})", packages)
    if not _is_built(packages):
        cache.mkdir(parents=True, exist_ok=True)
        reported(f"{revision}: waiting for another build")
        with _one_at_a_time(cache):
            if not _is_built(packages):  # another process may have built it meanwhile
                reported(f"{revision}: checking out")
                _check_out(sha, packages, repository)
                _compile(packages, cache / "target", lambda line: reported(f"{revision}: {line}"))
    return build


def _sha_of(revision: str, repository: Path) -> str:
    asked = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    try:
        return _git(repository, *asked).decode().strip()
    except subprocess.CalledProcessError as error:
        raise BenchError(
            "bench.unknown_revision",
            f"unknown revision `{revision}`",
            str(repository),
            error.stderr.decode().strip() or "git does not find this commit",
            "give a branch, tag or commit of this repository",
        ) from error


def _git(repository: Path, *arguments: str) -> bytes:
    # Root may build a repository of another user.
    command = ["git", "-c", f"safe.directory={repository}", "-C", str(repository), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True).stdout
    except FileNotFoundError as error:
        raise BenchError(
            "bench.build_failed",
            "cannot find the program `git`",
            why="not in PATH",
            fix="apt-get install git",
        ) from error


def _check_out(sha: str, folder: Path, repository: Path) -> None:
    """Extract the files of a commit with the current time, which cargo goes by."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    packed = _git(repository, "archive", "--format=tar", sha)
    subprocess.run(["tar", "-x", "-m", "-C", str(folder)], input=packed, check=True)


def _compile(packages: Path, target: Path, reported: Callable[[str], None]) -> None:
    environment = _environment(target)
    cargo = shutil.which("cargo", path=environment["PATH"])
    if cargo is None:
        raise BenchError(
            "bench.build_failed", "cannot find the program `cargo`", why="not in PATH", fix="run `make setup`"
        )
    reported_last: list[str] = []
    command = [cargo, "build", "--release", "--package", "ccp-native"]
    with subprocess.Popen(
        command, cwd=packages / "native", env=environment, stderr=subprocess.PIPE, text=True
    ) as cargo_run:
        assert cargo_run.stderr is not None
        for line in cargo_run.stderr:
            reported_last = [*reported_last, line.rstrip()][-_TAIL_LINES:]
            reported(line.strip())
    if cargo_run.returncode != 0:
        raise BenchError(
            "bench.build_failed",
            "the native extension of the revision does not build",
            str(packages / "native"),
            "\n".join(reported_last),
            f"for details run `cargo {' '.join(command[1:])}` in the checkout of the revision",
        )
    made = target / _LIBRARY
    extension = extension_of(packages)
    part = extension.with_suffix(".part")  # so that a partial file is never used
    shutil.copyfile(made, part)
    part.rename(extension)


def extension_of(packages: Path) -> Path:
    """Return the file of a checked-out revision's extension."""
    project = tomllib.loads((packages / "pyproject.toml").read_text())
    module: str = project["tool"]["maturin"]["module-name"]
    return packages.joinpath(*module.split(".")).with_suffix(".abi3.so")


def _is_built(packages: Path) -> bool:
    return (packages / "pyproject.toml").exists() and extension_of(packages).exists()


def _environment(target: Path) -> Mapping[str, str]:
    """Return the environment for building the extension for this Python."""
    homes = [Path.home(), Path("~" + os.environ.get("SUDO_USER", "root")).expanduser()]
    return {
        **os.environ,
        "CARGO_TARGET_DIR": str(target),
        "PATH": os.pathsep.join([os.environ.get("PATH", ""), *(str(home / ".cargo/bin") for home in homes)]),
        "PYO3_BUILD_EXTENSION_MODULE": "1",
        "PYO3_PYTHON": sys.executable,
    }


@contextlib.contextmanager
def _one_at_a_time(cache: Path) -> Iterator[None]:
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
