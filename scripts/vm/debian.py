"""Packages of Debian's suites, fetched with a separate apt state; nothing is installed on this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from scripts.vm.places import CACHE
from scripts.vm.problem import VmError, run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True)
class Mirrors:
    """Debian's mirrors.

    Attributes:
        main: Address of the archive.
        security: Address of security updates, or None.
    """

    main: str
    security: str | None

    def of(self, suite: str) -> str | None:
        """Return the address of a suite."""
        return self.security if suite.endswith("-security") else self.main


def find_mirrors(main: str | None) -> Mirrors:
    """Return the mirrors of this machine's apt.

    Args:
        main: Address of the archive to use instead, for machines that are not Debian.

    Raises:
        VmError: Without a Debian mirror or Debian's keys.
    """
    if not KEYRING.exists():
        raise VmError(
            "missing keys of Debian's archive",
            f"{KEYRING} does not exist",
            "apt-get install debian-archive-keyring",
        )
    if main is not None:
        return Mirrors(main, None)
    known = run(["apt-get", "indextargets", "--format", "$(ORIGIN)\t$(RELEASE)\t$(SITE)"]).splitlines()
    sites = {"security": "", "main": ""}
    for origin, release, site in (line.split("\t") for line in sorted(set(known))):
        if origin == "Debian":
            sites["security" if release.endswith("-security") else "main"] = site
    if not sites["main"]:
        raise VmError(
            "unknown Debian mirror",
            "this machine's apt does not use one",
            "give its address: `python -m scripts.vm --mirror ADDRESS`",
        )
    return Mirrors(sites["main"], sites["security"] or None)


class Suite:
    """A suite of Debian, with a separate apt state.

    Attributes:
        name: Name, such as `bookworm-backports`.
        source: Line for apt's list of sources.
    """

    def __init__(self, name: str, address: str, state: Path) -> None:
        """Create a suite without fetching anything."""
        self.name = name
        self.source = f"deb [signed-by={KEYRING}] {address} {name} main"
        self._state = state
        options = {
            "Dir::Etc::sourcelist": state / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::State": state,
            "Dir::State::status": "/dev/null",
            "Dir::Cache": state / "cache",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
        }
        self._options = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]

    def update(self) -> None:
        """Fetch the list of packages.

        Raises:
            VmError: If the mirror does not have the suite, or does not answer.
        """
        for folder in ("lists/partial", "cache/archives/partial"):
            (self._state / folder).mkdir(parents=True, exist_ok=True)
        (self._state / "sources.list").write_text(self.source + "\n")
        run(["apt-get", *self._options, "-o", "APT::Update::Error-Mode=any", "update"])

    def kernel_version(self) -> str:
        """Return the version of the suite's newest kernel, such as `6.1.0-40-amd64`.

        Raises:
            VmError: If the suite has no kernel.
        """
        depends = run(["apt-cache", *self._options, "depends", "linux-image-amd64"])
        found = re.search(r"Depends: linux-image-(\d\S+)", depends)
        if found is None:
            raise VmError(
                f"{self.name} has no kernel", "linux-image-amd64 has no dependency", "choose another suite"
            )
        return found[1]

    def has(self, package: str) -> bool:
        """Return whether the suite has a package."""
        return package in run(["apt-cache", *self._options, "pkgnames", package]).split()

    def unpack(self, packages: list[str], into: Path) -> None:
        """Fetch packages and unpack them into a folder.

        Raises:
            VmError: If one cannot be fetched.
        """
        into.mkdir(parents=True, exist_ok=True)
        run(["apt-get", *self._options, "download", *packages], cwd=into)
        for archive in into.glob("*.deb"):
            run(["dpkg-deb", "-x", str(archive), str(into)])
            archive.unlink()


def first_suite(names: list[str], mirrors: Mirrors) -> Suite:
    """Return the first suite that the mirrors have, with its list of packages fetched.

    Raises:
        VmError: If the mirrors have none of the suites.
    """
    problems = []
    for name in names:
        if (address := mirrors.of(name)) is not None:
            suite = Suite(name, address, CACHE / f"apt-{name}")
            try:
                suite.update()
            except VmError as error:
                problems.append(str(error))
            else:
                return suite
    raise VmError(
        f"no mirror has {' or '.join(names)}", "\n".join(problems) or "no mirrors", "use --mirror ADDRESS"
    )
