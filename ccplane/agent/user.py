"""Switches an agent that root started to another user, if no service manager has switched it.

The process keeps its capabilities for loading; `ebpf.drop_capabilities` later reduces them to what an agent
needs. Files created afterwards, in the run directory and next to the pins, belong to the new user.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ccplane.base.errors import UsageError

_PR_SET_SECUREBITS: Final = 28
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_RAISE: Final = 2
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_CAPABILITY_VERSION_3: Final = 0x20080522
_NO_SETUID_FIXUP: Final = 1 << 2  # a new user id leaves capabilities unchanged; capabilities(7)


def become(user: str, pin_dir: str, run_dir: Path) -> None:
    """Switch all threads of this process to a user, keeping the capabilities.

    Raises:
        UsageError: `user.unknown` or `user.not_permitted`.
    """
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise UsageError(
            "user.unknown",
            f"the user `{user}` does not exist",
            where=f"--user {user}",
            fix=f"create the user: useradd --system --no-create-home --shell /usr/sbin/nologin {user}",
        ) from None
    try:
        _hand_over(Path(pin_dir), run_dir, entry.pw_uid, entry.pw_gid)
        _prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP)
        os.setgroups(os.getgrouplist(user, entry.pw_gid))
        os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
        os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    except OSError as error:
        raise UsageError(
            "user.not_permitted",
            f"cannot switch to the user `{user}`",
            where=f"--user {user}",
            why=error.strerror or str(error),
            fix="run as root",
        ) from error


def settle(user: str | None, pin_dir: str, run_dir: Path) -> None:
    """Switch to the agent's user before any code of algorithms runs; executed programs get no capabilities.

    Raises:
        UsageError: `user.unknown`, `user.not_permitted`.
    """
    if sys.platform != "linux":
        return  # loading reports the error
    _inherit_nothing()
    if user is not None:
        become(user, pin_dir, run_dir)
    elif os.geteuid() == 0:
        # An earlier agent may have changed the owner, and without capabilities root could not write there.
        with contextlib.suppress(OSError):  # root with fewer capabilities: loading reports the missing ones
            _hand_over(Path(pin_dir), run_dir, 0, 0)


def _inherit_nothing() -> None:
    """Clear ambient and inheritable capabilities, which executed programs would inherit."""
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    _set_inheritable(lambda permitted: 0)


def pass_on_capabilities() -> None:
    """Let programs that this thread executes have its capabilities.

    Raises:
        OSError: If the thread gave up the right to do so, as an agent that root started does.
    """
    for number in _set_inheritable(lambda permitted: permitted):
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number)


def _set_inheritable(chosen: Callable[[int], int]) -> list[int]:
    """Set the inheritable capabilities of this thread; return their numbers.

    Args:
        chosen: Returns 32 bits of them, for the same bits of the permitted capabilities.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    of_this_thread = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Effective, permitted, inheritable: capabilities 0 to 31, then 32 to 63.
    sets = (ctypes.c_uint32 * 6)()
    for call in (libc.capget, libc.capset):
        sets[2], sets[5] = chosen(sets[1]), chosen(sets[4])
        if call(of_this_thread, sets) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
    bits = sets[2] | sets[5] << 32
    return [number for number in range(64) if bits >> number & 1]


def _hand_over(pin_dir: Path, run_dir: Path, uid: int, gid: int) -> None:
    run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
    os.chown(run_dir, uid, gid, follow_symlinks=False)
    bpffs = pin_dir.parent
    if not os.path.ismount(bpffs):
        return  # loading creates the missing directories as that user
    mode = bpffs.stat().st_mode
    if uid != 0 and not mode & stat.S_IXOTH:
        bpffs.chmod(mode | 0o011)  # systemd mounts it for root only
    if not pin_dir.exists():
        return
    os.chown(pin_dir, uid, gid, follow_symlinks=False)
    # Of an earlier agent's user, who could put links there meanwhile.
    for _, folders, files, folder in os.fwalk(pin_dir):
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)


def _prctl(option: int, *arguments: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, *arguments, *[0] * (4 - len(arguments))) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
