"""Errors of algorithms and their fold programs. Errors of parameters are `ccplane.base.errors.ParamError`."""

from __future__ import annotations

import sys
from pathlib import Path

from ccplane.base.errors import CcpError

_PACKAGE = Path(__file__).parent
_PLUMBING = (str(_PACKAGE / "errors.py"), str(_PACKAGE / "fold"))


class AlgorithmError(CcpError):
    """Base of all errors of algorithms."""


class FoldError(AlgorithmError):
    """A fold program cannot be built."""


class UnknownPrimitiveError(FoldError, AttributeError):
    """No datapath has this primitive. Also an AttributeError, as Python requires for a missing attribute."""


class RegistryError(AlgorithmError):
    """An algorithm cannot be found, loaded or registered."""


class ContractError(AlgorithmError):
    """An algorithm violates the contract of `ccp_algs.api`; raised by `check_algorithm`."""


def caller() -> str:
    """Return `file:line` of the nearest frame outside this package's internals, for `where`."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PLUMBING) and frame.f_back is not None:
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    if path.is_relative_to(_PACKAGE):
        path = path.relative_to(_PACKAGE.parent)
    return f"{path}:{frame.f_lineno}"
