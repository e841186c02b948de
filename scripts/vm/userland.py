"""Userland of machines: a small Debian, and a Python environment for the tests."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from scripts.vm.debian import Mirrors, first_suite
from scripts.vm.places import CACHE, ROOT, digest
from scripts.vm.problem import VmError, run

PACKAGES = ["iproute2", "iperf3", "kmod", "procps", "python3"]
TEST_PACKAGES = {"pytest", "pytest-timeout", "hypothesis"}
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
OLDEST_MANYLINUX = 17
"""Minor version of the oldest C library in tags of wheels."""


@dataclass(frozen=True)
class Userland:
    """A release of Debian.

    Attributes:
        suite: Its name.
        python: Version of its Python.
        glibc: Version of its C library; programs built here must not need a newer one.
    """

    suite: str
    python: str
    glibc: tuple[int, int]


USERLANDS = [Userland("bookworm", "3.11", (2, 36)), Userland("trixie", "3.13", (2, 41))]


def choose_userland() -> Userland:
    """Return the oldest userland in which programs built on this machine run.

    Raises:
        VmError: If this machine is newer than all userlands.
    """
    numbers = re.findall(r"\d+", os.confstr("CS_GNU_LIBC_VERSION") or "0.0")
    here = (int(numbers[0]), int(numbers[1]))
    for userland in USERLANDS:
        if here <= userland.glibc:
            return userland
    raise VmError(
        "no userland can run programs built here",
        f"this machine's C library {here[0]}.{here[1]} is newer than that of {USERLANDS[-1].suite}",
        "build on an older system, or add a newer suite to USERLANDS",
    )


def make_disk(userland: Userland, mirrors: Mirrors, more: Sequence[str], *, update: bool) -> Path:
    """Return a disk image with a small Debian, built if it is missing.

    Raises:
        VmError: If it cannot be built.
    """
    packages = [*PACKAGES, *more]
    image = CACHE / f"disk-{userland.suite}-{digest(*packages)}.ext2"
    if update or not image.exists():
        part = CACHE / "part.ext2"
        left_out = [
            f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "doc", "locale", "info")
        ]
        run(
            [
                *("mmdebstrap", "--variant=minbase", "--format=ext2", "--architectures=amd64"),
                *(f"--include={','.join(packages)}", '--aptopt=APT::Install-Recommends "false"', *left_out),
                '--customize-hook=mkdir -p "$1/usr/lib/modules"',  # where the kernel's modules are mounted
                *(userland.suite, str(part), f"deb {mirrors.main} {userland.suite} main"),
            ]
        )
        part.rename(image)
    return image


def make_busybox(userland: Userland, mirrors: Mirrors) -> Path:
    """Return a static busybox, fetched if it is missing.

    Raises:
        VmError: If it cannot be fetched.
    """
    folder = CACHE / "busybox"
    if not list(folder.glob("**/bin/busybox")):
        first_suite([userland.suite], mirrors).unpack(["busybox-static"], folder)
    return next(folder.glob("**/bin/busybox"))


def make_venv(userland: Userland, *, with_tests: bool = True) -> Path:
    """Return a virtual environment for the userland's Python, with ccplane as an editable install.

    Args:
        userland: The release of Debian.
        with_tests: Whether it has the packages of tests and experiments.

    Raises:
        VmError: If a package has no wheel for that Python, or ccplane is not installed here.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    if with_tests:
        extras = project["optional-dependencies"]
        wanted += [*extras["lab"], *extras["top"]]
        wanted += [line for line in extras["dev"] if _name(line) in TEST_PACKAGES]
    venv = CACHE / f"venv-{userland.suite}-{digest(*wanted)}"
    site = venv / "lib" / f"python{userland.python}" / "site-packages"
    if not (venv / "pyvenv.cfg").exists():
        shutil.rmtree(venv, ignore_errors=True)
        install(userland, wanted, site)
        (venv / "bin").mkdir()
        for alias in ("python", "python3"):
            (venv / "bin" / alias).symlink_to("/usr/bin/python3")
        (venv / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {userland.python}\n")
    _put_ccplane(site, venv / "bin" / "ccp")
    return venv


def download(userland: Userland, wanted: str, into: Path) -> None:
    """Fetch a package and its dependencies as wheels for the userland's Python.

    Raises:
        VmError: If a package has no wheel for that Python.
    """
    run([*PIP, "download", "--dest", str(into), *_fitting(userland), wanted])


def install(userland: Userland, wanted: Sequence[str], into: Path) -> None:
    """Install packages and their dependencies for the userland's Python into a new folder.

    Raises:
        VmError: If a package has no wheel for that Python.
    """
    shutil.rmtree(into, ignore_errors=True)
    run([*PIP, "install", "--target", str(into), *_fitting(userland), *wanted])


def _fitting(userland: Userland) -> list[str]:
    """Return pip's options for wheels that fit a userland."""
    minors = range(userland.glibc[1], OLDEST_MANYLINUX - 1, -1)
    return [
        *("--only-binary=:all:", "--implementation=cp", "--python-version", userland.python),
        *(f"--platform=manylinux_2_{n}_x86_64" for n in minors),
    ]


def _put_ccplane(site: Path, script: Path) -> None:
    """Install ccplane: metadata of this installation, and the checkout that the machine mounts."""
    try:
        here = metadata.distribution("ccplane").locate_file("")
    except metadata.PackageNotFoundError as error:
        raise VmError(
            "ccplane is not installed here", "machines need its metadata", "run `make setup`"
        ) from error
    for old in site.glob("ccplane-*"):
        shutil.rmtree(old)
    for folder in Path(str(here)).glob("ccplane-*.dist-info"):
        shutil.copytree(folder, site / folder.name)
    (site / "ccplane.pth").write_text("/mnt/checkout\n")
    script.write_text("#!/mnt/venv/bin/python\nfrom ccplane.agent.entry import main\n\nmain()\n")
    script.chmod(0o755)


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]
