"""What `pip install ccplane` leaves out, and which extra brings it.

Most people run algorithms, or listen; figures, screens and notebooks bring ten times as much. Modules that
need such a package import it where they use it; the command line, and who asks by `extra_part`, says which
extra is missing.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ccp_base.errors import LoadError

EXTRA_OF: Final = {
    "IPython": "notebooks",
    "aioquic": "aioquic",
    "anywidget": "notebooks",
    "distributed": "cluster",
    "gymnasium": "env",
    "ipykernel": "notebooks",
    "matplotlib": "lab",
    "ns": "ns3",
    "prometheus_client": "metrics",
    "pyarrow": "lab",
    "safetensors": "train",
    "scipy": "lab",
    "stable_baselines3": "train",
    "textual": "top",
    "torch": "train",
}
"""Name under which Python imports it -> extra in pyproject.toml."""


def lacking(error: ModuleNotFoundError) -> LoadError | None:
    """Return the error that names the missing extra; None if no extra brings the module."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(module)
    if extra is None:
        return None
    return LoadError(
        "load.no_extra",
        f"this needs {module}, which is not installed",
        why=f"it comes with ccplane's extra `{extra}`",
        fix=f"{_pip()} install 'ccplane[{extra}]'",
    )


def _pip() -> str:
    """Return the pip of this Python; its path, where the shell finds none or another."""
    own = Path(sys.executable).with_name("pip")
    return str(own) if own.exists() and shutil.which("pip") != str(own) else "pip"


@contextmanager
def extra_part() -> Iterator[None]:
    """Turn the failed import of what an extra brings into the error that names the extra.

    Raises:
        LoadError: `load.no_extra`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (ours := lacking(error)) is None:
            raise
        raise ours from error
