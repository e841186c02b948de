"""BPF maps and programs of others: what the kernel charges for maps, how long programs ran."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SYS_BPF: Final = {"x86_64": 321, "aarch64": 280}  # <asm/unistd.h>
_OBJ_GET: Final = 7  # <linux/bpf.h>, as the next
_PROG_GET_FD_BY_ID: Final = 13
_OBJ_GET_INFO_BY_FD: Final = 15
_ENABLE_STATS: Final = 32
_STATS_RUN_TIME: Final = 0
_PROG_NAME: Final = slice(64, 80)  # in struct bpf_prog_info

PROGRAM_NAME_CHARACTERS: Final = 15
"""Of longer names the kernel keeps so many."""


@dataclass(frozen=True, slots=True)
class Runs:
    """What a program did while `counting_runs`.

    Attributes:
        count: How often it ran.
        time_s: How long, all together, with what it called [s].
    """

    count: int
    time_s: float

    def __sub__(self, earlier: Runs) -> Runs:
        """Return what it did since an earlier count."""
        return Runs(self.count - earlier.count, self.time_s - earlier.time_s)


def memory_of_maps(pin_dir: str) -> dict[str, int]:
    """Return what the kernel charges for each map of a datapath.

    Args:
        pin_dir: Where the maps are pinned.

    Returns:
        Kernel memory by name of the map [bytes]; before Linux 6.4 the kernel estimates it from the sizes.

    Raises:
        OSError: If a map cannot be opened.
    """
    found = {}
    for pin in sorted(one for one in Path(pin_dir).iterdir() if one.is_file()):
        path = ctypes.create_string_buffer(bytes(pin))
        with _opened(_OBJ_GET, struct.pack("=QII", ctypes.addressof(path), 0, 0), str(pin)) as file:
            text = Path(f"/proc/self/fdinfo/{file}").read_text()
        if (charged := re.search(r"^memlock:\s+(\d+)", text, re.MULTILINE)) is not None:
            found[pin.name] = int(charged[1])
    return found


def runs_of_programs(pid: int) -> dict[str, Runs]:
    """Return how often and how long the programs ran that a process holds; of equal names together.

    Args:
        pid: The process.

    Raises:
        OSError: If the process is gone.
    """
    found: dict[str, Runs] = {}
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        facts = dict(re.findall(r"^(prog_id|run_time_ns|run_cnt):\s+(\d+)$", file.read_text(), re.MULTILINE))
        if "run_cnt" in facts:
            name = _name_of_program(int(facts["prog_id"]))
            before = found.get(name, Runs(0, 0.0))
            runs = Runs(int(facts["run_cnt"]), int(facts["run_time_ns"]) / 1e9)
            found[name] = Runs(before.count + runs.count, before.time_s + runs.time_s)
    return found


@contextlib.contextmanager
def counting_runs() -> Iterator[None]:
    """Let the kernel count runs of BPF programs for the length of a block, which costs some 20 ns a run.

    Raises:
        OSError: If this process may not ask for it.
    """
    with _opened(_ENABLE_STATS, struct.pack("=I", _STATS_RUN_TIME), "run-time statistics"):
        yield


def _name_of_program(number: int) -> str:
    """Return a program's name, as far as the kernel keeps it."""
    info = ctypes.create_string_buffer(_PROG_NAME.stop)
    with _opened(_PROG_GET_FD_BY_ID, struct.pack("=III", number, 0, 0), f"program {number}") as file:
        asked = struct.pack("=IIQ", file, len(info), ctypes.addressof(info))
        _bpf(_OBJ_GET_INFO_BY_FD, asked, f"program {number}")
    return info.raw[_PROG_NAME].split(b"\0")[0].decode()


@contextlib.contextmanager
def _opened(command: int, attributes: bytes, what: str) -> Iterator[int]:
    file = _bpf(command, attributes, what)
    try:
        yield file
    finally:
        os.close(file)


def _bpf(command: int, attributes: bytes, what: str) -> int:
    """Call bpf(2), for which Python has no function.

    Raises:
        OSError: If the kernel refuses.
    """
    given = ctypes.create_string_buffer(attributes)
    number, size = ctypes.c_long(_SYS_BPF[platform.machine()]), ctypes.c_uint(len(attributes))
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(number, ctypes.c_int(command), given, size)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)
    return result
