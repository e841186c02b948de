"""Identifies the build of ccplane, to ensure that runs elsewhere give the same results as runs here."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final

from ccp_algs.siblings import OWN
from ccplane.base import _native
from experiments.runs.metadata import git_revision

ROOT: Final = Path(__file__).parents[2]
"""Directory of ccplane's packages."""


@dataclass(frozen=True)
class Build:
    """A build of ccplane, identified by its contents: two builds of one version may differ.

    Attributes:
        version: Its version.
        sources_sha256: Hash of all its Python modules.
        native_sha256: Hash of its native module.
        commit: Commit of its sources, for display; empty outside of a repository.
    """

    version: str
    sources_sha256: str
    native_sha256: str
    commit: str = field(compare=False)

    @property
    def digest(self) -> str:
        """A hash that is equal for equal builds only."""
        parts = (self.version, self.sources_sha256, self.native_sha256)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.version} ({self.commit})" if self.commit else self.version

    def differences(self, other: Build) -> str:
        """Describe the differences from another build; empty if there are none."""
        parts = {
            "version": self.version == other.version,
            "Python modules": self.sources_sha256 == other.sources_sha256,
            "compiled part": self.native_sha256 == other.native_sha256,
        }
        return ", ".join(name for name, same in parts.items() if not same)


@functools.cache
def this_build() -> Build:
    """Return the build of this process, as it was at the first call."""
    sources = hashlib.sha256()
    for package in sorted(OWN):
        for file in sorted((ROOT / package).rglob("*.py")):
            sources.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    native = hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()
    revision = git_revision()
    commit = "" if revision is None else revision["commit"][:12] + ", changed" * revision["dirty"]
    return Build(metadata.version("ccplane"), sources.hexdigest(), native, commit)
