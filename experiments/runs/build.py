"""Which ccplane this is: whether runs elsewhere give what runs here would."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final

from ccp_algs.beside import OURS
from ccplane.base import _native
from experiments.runs.metadata import git_revision

ROOT: Final = Path(__file__).parents[2]
"""What ccplane's packages are in."""


@dataclass(frozen=True)
class Build:
    """A ccplane, by its contents: two of the same version may differ.

    Attributes:
        version: Its version.
        sources_sha256: Hash of all its Python modules.
        native_sha256: Hash of its compiled part.
        commit: What its sources are of, for people; empty if they are in no repository.
    """

    version: str
    sources_sha256: str
    native_sha256: str
    commit: str = field(compare=False)

    @property
    def digest(self) -> str:
        """What is the same for builds that are the same, and for no others."""
        parts = (self.version, self.sources_sha256, self.native_sha256)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def __str__(self) -> str:
        """Return it for people."""
        return f"{self.version} ({self.commit})" if self.commit else self.version

    def differences(self, other: Build) -> str:
        """Return what of another one is not as it is here, for people; empty if nothing is."""
        parts = {
            "version": self.version == other.version,
            "Python modules": self.sources_sha256 == other.sources_sha256,
            "compiled part": self.native_sha256 == other.native_sha256,
        }
        return ", ".join(name for name, same in parts.items() if not same)


@functools.cache
def this_build() -> Build:
    """Return the ccplane of this process, as it was when it was first asked for."""
    sources = hashlib.sha256()
    for package in sorted(OURS):
        for file in sorted((ROOT / package).rglob("*.py")):
            sources.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    native = hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()
    revision = git_revision()
    commit = "" if revision is None else revision["commit"][:12] + ", changed" * revision["dirty"]
    return Build(metadata.version("ccplane"), sources.hexdigest(), native, commit)
