"""The names of the compiled part, `ccplane.base._native`, imported on first use.

Access to a name raises LoadError `load.no_native_module` if the compiled part cannot be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccplane.base.errors import LoadError

if TYPE_CHECKING:
    from ccplane.base._native import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            from ccplane.base import _native
        except ImportError as error:
            raise LoadError(
                "load.no_native_module",
                "the compiled part of ccplane (ccplane.base._native) cannot be imported",
                why=str(error),
                fix="install ccplane with `pip install .` (needs Rust and clang), not by setting PYTHONPATH",
            ) from error
        return getattr(_native, name)
