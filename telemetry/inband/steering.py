"""Receive packet steering (RPS) of veth interfaces, which keeps the packets of a connection in order.

A veth pair has no receive queue of its own: a packet waits in the queue of the processor that sent it. A TCP
socket sends on the processor of its process and on the processors that handle its ACKs. Its packets then wait
in several queues, and packets of one queue overtake those of another. With RPS, all packets of a connection
wait in one queue.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

_ONLINE: Final = Path("/sys/devices/system/cpu/online")
# System calls of <linux/mount.h>, with the same numbers on all architectures.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_FSOPEN_CLOEXEC = _FSMOUNT_CLOEXEC = 1
_FSCONFIG_CMD_CREATE: Final = 6
_GROUP_BITS: Final = 32
"""A mask is written as groups of eight hexadecimal digits."""


def unsteered(names: Iterable[str]) -> dict[str, str]:
    """Return the receive queues without RPS of interfaces of this network namespace.

    Returns:
        File of the queue -> its mask of processors. Empty if there is only one processor, if the kernel has
        no RPS, or if this process is not permitted to mount sysfs.
    """
    found: dict[str, str] = {}
    if len(_online()) < 2:
        return found
    with contextlib.suppress(PermissionError), _devices() as devices:
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # the interface is gone, or there is no RPS
                found |= {file: mask for file, mask in _masks(devices, name) if not set(mask) - {"0", ","}}
    return found


def all_processors() -> str:
    """Return the mask of all processors that are online."""
    mask = sum(1 << processor for processor in _online())
    groups = []
    while mask:
        groups.append(f"{mask % (1 << _GROUP_BITS):08x}")
        mask >>= _GROUP_BITS
    return ",".join(reversed(groups))


def steer(masks: Mapping[str, str]) -> None:
    """Set the masks of receive queues; those of interfaces that are gone are left out.

    Args:
        masks: File of a queue, as `unsteered` returns it -> its mask of processors.

    Raises:
        OSError: If the kernel refuses a mask.
    """
    if not masks:
        return
    with _devices() as devices:
        for file, mask in masks.items():
            with contextlib.suppress(FileNotFoundError), open(file, "w", opener=_opener(devices)) as opened:
                opened.write(mask)


def _online() -> set[int]:
    ranges = (part.split("-") for part in _ONLINE.read_text().split(","))
    return {number for ends in ranges for number in range(int(ends[0]), int(ends[-1]) + 1)}


def _masks(devices: int, name: str) -> Iterator[tuple[str, str]]:
    queues = os.open(f"{name}/queues", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=devices)
    try:
        names = sorted(queue for queue in os.listdir(queues) if queue.startswith("rx-"))
    finally:
        os.close(queues)
    for queue in names:
        file = f"{name}/queues/{queue}/rps_cpus"
        with open(file, opener=_opener(devices)) as opened:
            yield file, opened.read().strip()


def _opener(directory: int) -> Callable[[str, int], int]:
    return lambda path, flags: os.open(path, flags | os.O_CLOEXEC, dir_fd=directory)


@contextlib.contextmanager
def _devices() -> Iterator[int]:
    """Open the directory of interfaces, in a sysfs of this network namespace.

    The sysfs at /sys shows the network namespace of the process that mounted it, so a private one is needed.
    It is mounted nowhere, and gone once the descriptors are closed.
    """
    context = _call(_FSOPEN, b"sysfs", _FSOPEN_CLOEXEC)
    try:
        _call(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        mount = _call(_FSMOUNT, context, _FSMOUNT_CLOEXEC, 0)
    finally:
        os.close(context)
    try:
        devices = os.open("class/net", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=mount)
    finally:
        os.close(mount)
    try:
        yield devices
    finally:
        os.close(devices)


def _call(number: int, *arguments: bytes | int | None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "sysfs")
    return result
