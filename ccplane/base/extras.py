"""Optional dependencies: which extra of ccplane installs which package.

Figures, screens and notebooks need ten times as many packages as running algorithms does. Modules import
such a package where they use it; `extra_part` and the command line name the missing extra.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ccplane.base.errors import LoadError

EXTRA_OF: Final = {
    "IPython": "notebooks",
    "aioquic": "aioquic",
    "anywidget": "notebooks",
    "distributed": "cluster",
    "gymnasium": "env",
    "ipykernel": "notebooks",
    "jinja2": "lab",
    "jupyterlab": "notebooks",
    "markupsafe": "lab",
    "matplotlib": "lab",
    "pandas": "lab",
    "prometheus_client": "metrics",
    "pyarrow": "lab",
    "safetensors": "train",
    "stable_baselines3": "train",
    "textual": "top",
    "torch": "train",
}
"""Import name -> extra in pyproject.toml."""


def lacking(error: ModuleNotFoundError) -> LoadError | None:
    """Return the error that names the missing extra; None if no extra installs the module."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(module)
    if extra is None:
        return None
    return LoadError(
        "load.no_extra",
        f"the package {module} is needed, but is not installed",
        why=f"{module} is part of ccplane's extra `{extra}`",
        fix=f"{_pip()} install 'ccplane[{extra}]'",
    )


def _pip() -> str:
    """Return the command for this Python's pip; its path, if the shell would not find it."""
    own = Path(sys.executable).with_name("pip")
    return str(own) if own.exists() and shutil.which("pip") != str(own) else "pip"


@contextmanager
def extra_part() -> Iterator[None]:
    """Turn a failed import of an optional dependency into an error that names the extra.

    Raises:
        LoadError: `load.no_extra`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (mine := lacking(error)) is None:
            raise
        raise mine from error
