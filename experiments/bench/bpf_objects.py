"""BPF maps and programs of other processes: entries and memory of maps, run times of programs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SYS_BPF: Final = {"x86_64": 321, "aarch64": 280}  # <asm/unistd.h>
_MAP_LOOKUP: Final = 1  # <linux/bpf.h>, as the next
_MAP_UPDATE: Final = 2
_MAP_GET_NEXT_KEY: Final = 4
_OBJ_GET: Final = 7
_PROG_GET_NEXT_ID: Final = 11
_MAP_GET_NEXT_ID: Final = 12
_PROG_GET_FD_BY_ID: Final = 13
_OBJ_GET_INFO_BY_FD: Final = 15
_ENABLE_STATS: Final = 32
_LINK_DETACH: Final = 34
_STATS_RUN_TIME: Final = 0
_STRUCT_OPS: Final = 27  # BPF_PROG_TYPE_STRUCT_OPS
_PROG_INFO: Final = struct.Struct("=I60x16s112xQQ")
"""Of struct bpf_prog_info: type, name, run_time_ns, run_cnt."""

_HASHES: Final = frozenset({1, 5, 9, 10})  # BPF_MAP_TYPE_HASH, PERCPU_HASH, LRU_HASH, LRU_PERCPU_HASH
_MAP_INFO: Final = struct.Struct("=6I")
"""Of struct bpf_map_info: type, id, key_size, value_size, max_entries, map_flags."""

PROGRAM_NAME_CHARACTERS: Final = 15
"""Maximum characters of a name that the kernel keeps."""


@dataclass(frozen=True, slots=True)
class _Program:
    kind: int
    name: str
    runs: Runs


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of a BPF program during `counting_runs`.

    Attributes:
        count: Number of runs.
        time_s: Total time, including what it called [s].
    """

    count: int
    time_s: float

    def __add__(self, other: Runs) -> Runs:
        """Return the sum of two programs' runs."""
        return Runs(self.count + other.count, self.time_s + other.time_s)

    def __sub__(self, earlier: Runs) -> Runs:
        """Return the runs since an earlier count."""
        return Runs(self.count - earlier.count, self.time_s - earlier.time_s)


def memory_of_maps(pin_dir: str) -> dict[str, int]:
    """Return the kernel memory of each map of a datapath.

    Returns:
        Map -> kernel memory [bytes]; before Linux 6.4 the kernel estimates it from the sizes.

    Raises:
        OSError: If a map cannot be opened.
    """
    found = {}
    for pin in _pins(pin_dir):
        with _opened_pin(pin) as file:
            text = Path(f"/proc/self/fdinfo/{file}").read_text()
        if (charged := re.search(r"^memlock:\s+(\d+)", text, re.MULTILINE)) is not None:
            found[pin.name] = int(charged[1])
    return found


def entries_of_maps(pin_dir: str) -> dict[str, int]:
    """Return the number of entries of each hash map of a datapath.

    Returns:
        Hash map -> number of entries.

    Raises:
        OSError: If a map cannot be opened.
    """
    found = {}
    for pin in _pins(pin_dir):
        with _opened_pin(pin) as file:
            is_map = "map_type:" in Path(f"/proc/self/fdinfo/{file}").read_text()
            kind, _, key_bytes, _, maximum, _ = _map_info(file, str(pin)) if is_map else (0,) * 6
            if kind in _HASHES:
                found[pin.name] = _count_keys(file, key_bytes, maximum, str(pin))
    return found


def maps() -> frozenset[int]:
    """Return the IDs of all maps of this machine.

    Raises:
        OSError: Without permission.
    """
    return frozenset(_numbers(_MAP_GET_NEXT_ID, "the maps"))


def invert(pin: Path, offsets: Sequence[int]) -> None:
    """Invert bytes of the first value of a pinned array.

    Raises:
        OSError: If it cannot be read or written.
    """
    with _opened_pin(pin) as file:
        _, _, _, value_bytes, _, _ = _map_info(file, str(pin))
        key, value = ctypes.create_string_buffer(4), ctypes.create_string_buffer(value_bytes)
        asked = struct.pack("=I4xQQQ", file, ctypes.addressof(key), ctypes.addressof(value), 0)
        _bpf(_MAP_LOOKUP, ctypes.create_string_buffer(asked), str(pin))
        for offset in offsets:
            value[offset] = bytes([value.raw[offset] ^ 0xFF])
        _bpf(_MAP_UPDATE, ctypes.create_string_buffer(asked), str(pin))


def _pins(pin_dir: str) -> list[Path]:
    return sorted(one for one in Path(pin_dir).iterdir() if one.is_file())


@contextlib.contextmanager
def _opened_pin(pin: Path) -> Iterator[int]:
    path = ctypes.create_string_buffer(bytes(pin))
    with _opened(_OBJ_GET, struct.pack("=QII", ctypes.addressof(path), 0, 0), str(pin)) as file:
        yield file


def _map_info(file: int, what: str) -> tuple[int, ...]:
    info = ctypes.create_string_buffer(_MAP_INFO.size)
    asked = struct.pack("=IIQ", file, len(info), ctypes.addressof(info))
    _bpf(_OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(asked), what)
    return _MAP_INFO.unpack(info.raw[: _MAP_INFO.size])


def _count_keys(file: int, key_bytes: int, maximum: int, what: str) -> int:
    """Count the keys of a hash map; a removal during the walk restarts it."""
    keys: set[bytes] = set()
    now, then = ctypes.create_string_buffer(key_bytes), ctypes.create_string_buffer(key_bytes)
    before = 0
    for _ in range(2 * maximum):
        asked = struct.pack("=I4xQQ", file, before, ctypes.addressof(then))
        try:
            _bpf(_MAP_GET_NEXT_KEY, ctypes.create_string_buffer(asked), what)
        except FileNotFoundError:  # that was the last one
            break
        keys.add(then.raw)
        now, then = then, now
        before = ctypes.addressof(now)
    return len(keys)


def runs_of_programs(pid: int) -> dict[str, Runs]:
    """Return the runs of a process' programs, summed by name.

    Raises:
        OSError: If the process does not exist.
    """
    held = set()
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        if (reported := re.search(r"^prog_id:\s+(\d+)$", file.read_text(), re.MULTILINE)) is not None:
            held.add(int(reported[1]))
    return _together(_programs(held))


def runs_of_struct_ops(prefix: str) -> dict[str, Runs]:
    """Return the runs of this machine's struct_ops programs with a prefix, summed by name.

    The time of tail calls counts for the program that the kernel called.

    Raises:
        OSError: Without permission.
    """
    found = _programs(_numbers())
    return _together([one for one in found if one.kind == _STRUCT_OPS and one.name.startswith(prefix)])


def programs() -> frozenset[int]:
    """Return the IDs of all programs of this machine.

    Raises:
        OSError: Without permission.
    """
    return frozenset(_numbers())


def runs_of_some(numbers: Collection[int]) -> dict[str, Runs]:
    """Return the runs of programs with these IDs, summed by name.

    Raises:
        OSError: Without permission.
    """
    return _together(_programs(numbers))


def detach_link(pin: Path) -> None:
    """Unregister a pinned link; the pin stays.

    Raises:
        OSError: If the kernel cannot; for struct_ops it needs Linux 6.11.
    """
    with _opened_pin(pin) as link:
        _bpf(_LINK_DETACH, ctypes.create_string_buffer(struct.pack("=I", link)), str(pin))


def _together(programs: list[_Program]) -> dict[str, Runs]:
    found: dict[str, Runs] = {}
    for one in programs:
        found[one.name] = found.get(one.name, Runs(0, 0.0)) + one.runs
    return found


@contextlib.contextmanager
def counting_runs() -> Iterator[None]:
    """Let the kernel count runs of BPF programs during a block, which costs about 20 ns per run.

    Raises:
        OSError: Without permission.
    """
    with _opened(_ENABLE_STATS, struct.pack("=I", _STATS_RUN_TIME), "run-time statistics"):
        yield


def _numbers(command: int = _PROG_GET_NEXT_ID, what: str = "the programs") -> Iterator[int]:
    """Yield the ID of each program of this machine, or of each object of another command."""
    number = 0
    while True:
        asked = ctypes.create_string_buffer(struct.pack("=III", number, 0, 0))
        try:
            _bpf(command, asked, what)
        except FileNotFoundError:  # no more
            return
        (number,) = struct.unpack_from("=I", asked.raw, 4)
        yield number


def _programs(numbers: Collection[int] | Iterator[int]) -> list[_Program]:
    """Return the programs, without those that have just ended."""
    found = []
    for number in numbers:
        what = f"program {number}"
        info = ctypes.create_string_buffer(_PROG_INFO.size)
        with contextlib.suppress(FileNotFoundError):
            with _opened(_PROG_GET_FD_BY_ID, struct.pack("=III", number, 0, 0), what) as file:
                asked = struct.pack("=IIQ", file, len(info), ctypes.addressof(info))
                _bpf(_OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(asked), what)
            kind, name, time_ns, count = _PROG_INFO.unpack(info.raw)
            found.append(_Program(kind, name.split(b"\0")[0].decode(), Runs(count, time_ns / 1e9)))
    return found


@contextlib.contextmanager
def _opened(command: int, attributes: bytes, what: str) -> Iterator[int]:
    file = _bpf(command, ctypes.create_string_buffer(attributes), what)
    try:
        yield file
    finally:
        os.close(file)


def _bpf(command: int, attributes: ctypes.Array[ctypes.c_char], what: str) -> int:
    """Call bpf(2), for which Python has no function; it may write into the attributes.

    Raises:
        OSError: If the kernel refuses.
    """
    # create_string_buffer() appends a zero, which the kernel would take for another attribute.
    number, size = ctypes.c_long(_SYS_BPF[platform.machine()]), ctypes.c_uint(len(attributes) - 1)
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(number, ctypes.c_int(command), attributes, size)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)
    return result
