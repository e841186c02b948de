"""Batches for vectorised algorithms: reports go up as one array, decisions come back as one array."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccplane.agent.flow import MAX_AMOUNT, MAX_REGISTER
from ccplane.base.errors import ParamError
from ccplane.datapath.protocol import Datapath

if TYPE_CHECKING:
    from ccp_algs import Updates


def amounts(values: ArrayLike | None, n: int, name: str, largest: int = MAX_AMOUNT) -> NDArray[np.uint64]:
    """Return windows, rates or registers as the datapath takes them.

    Args:
        values: Array of shape (n,) of any real dtype, or one number for all; None leaves all as they are.
        n: How many flows.
        name: What they are, for the message.
        largest: Largest value.

    Returns:
        Array of shape (n,) uint64, fractions cut off; 0 leaves a flow's as it is.

    Raises:
        ParamError: `update.shape`, `update.not_a_number` or `update.out_of_range`, with the first bad row.
    """
    if values is None:
        return np.zeros(n, np.uint64)
    given = np.asarray(values)
    if given.ndim == 0:
        given = np.full(n, given)
    if given.shape != (n,):
        raise ParamError(
            "update.shape",
            f"{name} has the shape {given.shape}, flow_ids has ({n},)",
            fix="give one value a flow, one number for all, or None",
        )
    if given.dtype.kind not in "buif":
        raise ParamError(
            "update.not_a_number",
            f"{name} has the dtype {given.dtype}",
            fix="give an array of numbers, such as float64 or uint64",
        )
    if given.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what float64 cannot hold becomes infinite, and is refused below
            given = given.astype(np.float64, copy=False)
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        row = int(np.argmin(np.isfinite(given)))
        raise ParamError(
            "update.not_a_number",
            f"{name}[{row}] is {given[row]}",
            fix="check the arithmetic that made it; use 0 to leave a flow as it is",
        )
    if given.dtype.kind == "b":
        given = given.astype(np.uint64)
    # float64 does not hold the largest register, 2^64 - 1: the next that it holds is too large.
    bad = given >= largest + 1 if given.dtype.kind == "f" else given > largest
    if given.dtype.kind in "if":
        bad |= given < 0
    if bad.any():
        row = int(np.argmax(bad))
        raise ParamError(
            "update.out_of_range",
            f"{name}[{row}] is {given[row]}",
            why=f"it must be from 0 to {largest}",
            fix="windows are bytes, not segments; rates are bytes/s, not bit/s; 0 leaves a flow as it is",
        )
    return given.astype(np.uint64, copy=False)


def send(datapath: Datapath, updates: Updates) -> int:
    """Write what a vectorised algorithm decided.

    Args:
        datapath: Where to.
        updates: Its decisions.

    Returns:
        How many of the flows were still there.

    Raises:
        ParamError: As `amounts`; nothing was written then.
        RegisterError: If a program has no such control register; nothing was written then.
    """
    flow_ids = np.ascontiguousarray(updates.flow_ids, dtype=np.uint64)
    n = len(flow_ids)
    cwnd_bytes = np.ascontiguousarray(amounts(updates.cwnd_bytes, n, "cwnd_bytes"))
    rate_bytes_per_s = np.ascontiguousarray(amounts(updates.rate_bytes_per_s, n, "rate_bytes_per_s"))
    registers = {
        name: np.ascontiguousarray(amounts(values, n, name, MAX_REGISTER))
        for name, values in updates.registers.items()
    }
    return datapath.update_many(flow_ids, cwnd_bytes, rate_bytes_per_s, registers or None)
