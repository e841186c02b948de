"""Temporary folders of programs on hosts, removed with the traffic, or when the next traffic starts."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from experiments.netlab import names
from experiments.netlab.host import Host

_PREFIX: Final = "ccplane-traffic-"
_NAME: Final = re.compile(re.escape(_PREFIX) + r"(?P<namespace>.+)-[^-]+")


def make_folder(host: Host) -> tempfile.TemporaryDirectory[str]:
    """Make a folder that only root can read; its name identifies its owner.

    Making a folder also removes folders of killed runs.
    """
    clean_leftovers()
    return tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{host.namespace}-", ignore_cleanup_errors=True)


def clean_leftovers() -> list[str]:
    """Remove folders whose owner is dead; return their paths."""
    removed = []
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        match = _NAME.fullmatch(path.name)
        owner = names.owner_of(match["namespace"]) if match else None
        if owner is not None and not owner.is_alive():
            shutil.rmtree(path, ignore_errors=True)
            removed.append(str(path))
    return removed
