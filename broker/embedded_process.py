"""Runs Mosquitto for `EmbeddedBroker`: without privileges, and no longer than the parent process.

This script uses only the standard library (`python -I -S`): it starts in 20 ms, and no module of this folder
can shadow one of the library. Standard input is one line of JSON; end of file stops the script, so it ends
with its parent process even if the parent is killed. Standard output reports when Mosquitto listens; standard
error is Mosquitto's log.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

DESCRIPTORS = 4096
"""Limit of open files and sockets of Mosquitto; larger than its limit of connections."""
START_S = 10.0
"""Time that Mosquitto has to start listening before it is killed [s]."""

_NOBODY = 65534
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def give_up_rights() -> None:
    """Become user nobody if this process runs as root; programs started from here cannot regain privileges.

    Root without the capability to change users, as in an agent that dropped its privileges, stays root.
    """
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _allow_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def _end_with_parent() -> None:
    """In the child: end when this process is killed."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)


def _kill_at_end_of_input(process: subprocess.Popen[str]) -> None:
    """Kill Mosquitto: it has no state to save, and on SIGTERM it would publish every client's last will."""
    sys.stdin.buffer.read()
    process.kill()


def run() -> int:
    """Run Mosquitto; return its exit code, or 128 plus the number of the signal that ended it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes the pipe
    program, files = json.loads(sys.stdin.buffer.readline())
    give_up_rights()
    _allow_descriptors()
    with tempfile.TemporaryDirectory(prefix="ccplane-broker-") as folder:
        _write(Path(folder), files)
        process = subprocess.Popen(
            [program, "-c", "mosquitto.conf"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            env={"LC_ALL": "C"},
            preexec_fn=_end_with_parent,  # safe: there are no other threads yet
        )
        late = threading.Timer(START_S, process.kill)
        late.start()
        threading.Thread(target=_kill_at_end_of_input, args=(process,), daemon=True).start()
        assert process.stderr is not None
        runs = False
        for line in process.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            if runs := line.endswith(" running\n"):
                break
        late.cancel()
    if runs:  # it has read its files, which are deleted by now
        print(json.dumps({"pid": process.pid}), flush=True)
    for line in process.stderr:
        print(line, end="", file=sys.stderr, flush=True)
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    code = run()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)  # the thread that reads standard input would keep the interpreter alive
