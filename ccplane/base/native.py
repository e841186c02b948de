"""The compiled part of the package, `ccplane.base._native`, and what is said where it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ccplane.base.errors import LoadError


@contextmanager
def native_part() -> Iterator[None]:
    """Turn a failed import of the compiled part into a LoadError.

    Raises:
        LoadError: `load.no_native_module`.
    """
    try:
        yield
    except ImportError as error:
        raise LoadError(
            "load.no_native_module",
            "the compiled part of ccplane (ccplane.base._native) cannot be imported",
            why=str(error),
            fix="install the package with `pip install .` (needs Rust and clang), not by setting PYTHONPATH",
        ) from error
