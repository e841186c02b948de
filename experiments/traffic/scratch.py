"""Temporary folders of programs in hosts, which are gone when the traffic is, or the next one starts."""

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
    """Make a folder that only root reads; its name tells whose it is.

    Folders that runs left behind which were killed outright are removed on the way.
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
