"""Batches for vectorised algorithms: reports and decisions as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccplane.base.errors import ParamError
from ccplane.base.flows import MAX_AMOUNT, MAX_REGISTER
from ccplane.datapath.protocol import Datapath

if TYPE_CHECKING:
    from ccp_algs import Updates


def amounts(values: ArrayLike | None, n: int, name: str, largest: int = MAX_AMOUNT) -> NDArray[np.uint64]:
    """Check windows, rates or registers, and return them as the datapath expects.

    Args:
        values: Array of shape (n,) of any real dtype, or one number for all flows; None: unchanged.
        n: Number of flows.
        name: Name of the values, for errors.
        largest: Maximum.

    Returns:
        Array of shape (n,) uint64, rounded towards zero; 0 leaves a flow unchanged.

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
            f"{name} has shape {given.shape}, but flow_ids has shape ({n},)",
            fix="give one value per flow, one number for all flows, or None",
        )
    if given.dtype.kind not in "buif":
        raise ParamError(
            "update.not_a_number",
            f"{name} has dtype {given.dtype}, which is not numeric",
            fix="give an array of numbers, such as float64 or uint64",
        )
    if given.dtype.kind == "f":
        with np.errstate(over="ignore"):  # values too large for float64 become infinite: refused below
            given = given.astype(np.float64, copy=False)
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        row = int(np.argmin(np.isfinite(given)))
        raise ParamError(
            "update.not_a_number",
            f"{name}[{row}] is {given[row]}",
            fix="check how the value is computed; 0 leaves a flow unchanged",
        )
    if given.dtype.kind == "b":
        given = given.astype(np.uint64)
    # float64 cannot represent the maximum of a register, 2^64 - 1; its next value is too large.
    bad = given >= largest + 1 if given.dtype.kind == "f" else given > largest
    if given.dtype.kind in "if":
        bad |= given < 0
    if bad.any():
        row = int(np.argmax(bad))
        raise ParamError(
            "update.out_of_range",
            f"{name}[{row}] is {given[row]}",
            why=f"the value must be from 0 to {largest}",
            fix="give windows in bytes, not segments, and rates in bytes/s, not bit/s; 0 means unchanged",
        )
    return given.astype(np.uint64, copy=False)


def send(datapath: Datapath, updates: Updates) -> int:
    """Write the decisions of a vectorised algorithm; return the number of flows that are still open.

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
