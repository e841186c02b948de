"""Another user than root for an agent that root started, without a service manager that would see to it.

Its capabilities stay for as long as loading wants them; `ebpf.drop_capabilities` then leaves what an agent
needs, as it does for root. What is written later, in the run directory and beside the pins, becomes
that user's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import stat
import sys
from pathlib import Path
from typing import Final

from ccplane.base.errors import UsageError

_PR_SET_SECUREBITS: Final = 28
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_CAPABILITY_VERSION_3: Final = 0x20080522
_NO_SETUID_FIXUP: Final = 1 << 2  # a new user id leaves capabilities as they are; capabilities(7)


def become(user: str, pin_dir: str, run_dir: Path) -> None:
    """Become a user, all threads of this process, with the capabilities that it has.

    Args:
        user: Name of the user.
        pin_dir: Directory of the datapath.
        run_dir: Directory of run files.

    Raises:
        UsageError: `user.unknown`, or `user.not_permitted` if this process may not change its user.
    """
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise UsageError(
            "user.unknown",
            f"there is no user `{user}`",
            where=f"--user {user}",
            fix=f"make one: useradd --system --no-create-home --shell /usr/sbin/nologin {user}",
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
            f"cannot become the user `{user}`",
            where=f"--user {user}",
            why=error.strerror or str(error),
            fix="run as root",
        ) from error


def settle(user: str | None, pin_dir: str, run_dir: Path) -> None:
    """Be who the agent shall be, before code of algorithms runs; programs that it executes inherit no right.

    Args:
        user: Whom to become; None to stay.
        pin_dir: Directory of the datapath.
        run_dir: Directory of run files.

    Raises:
        UsageError: `user.unknown`, `user.not_permitted`.
    """
    if sys.platform != "linux":
        return  # loading tells
    _inherit_nothing()
    if user is not None:
        become(user, pin_dir, run_dir)
    elif os.geteuid() == 0:
        # An agent before gave them to its user: without capabilities, root may not write there.
        with contextlib.suppress(OSError):  # a root with fewer rights: loading tells which it misses
            _hand_over(Path(pin_dir), run_dir, 0, 0)


def _inherit_nothing() -> None:
    """Take from programs that this process executes what a service manager gives a user in this way."""
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    libc = ctypes.CDLL(None, use_errno=True)
    of_this_process = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Effective, permitted, inheritable, 32 capabilities each, and once more for those above.
    sets = (ctypes.c_uint32 * 6)()
    for call in (libc.capget, libc.capset):
        sets[2] = sets[5] = 0  # what capget wrote, before capset
        if call(of_this_process, sets) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))


def _hand_over(pin_dir: Path, run_dir: Path, uid: int, gid: int) -> None:
    run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
    os.chown(run_dir, uid, gid)
    bpffs = pin_dir.parent
    if not os.path.ismount(bpffs):
        return  # loading makes what is missing, as that user
    mode = bpffs.stat().st_mode
    if uid != 0 and not mode & stat.S_IXOTH:
        bpffs.chmod(mode | 0o011)  # systemd lets only root pass
    for path in (pin_dir, *pin_dir.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            os.chown(path, uid, gid)


def _prctl(option: int, argument: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
