"""BPF maps by bpf(2), for tests that read or write what no other program should."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CREATE, LOOK_UP, UPDATE, NEXT_KEY, OBJ_PIN, OBJ_GET, TAKE = 0, 1, 2, 4, 6, 7, 21
HASH, NO_PREALLOC = 1, 1
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]


class _Element(ctypes.Structure):
    _fields_ = [
        ("fd", ctypes.c_uint64),
        ("key", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
    ]


class _Object(ctypes.Structure):
    _fields_ = [("path", ctypes.c_uint64), ("fd", ctypes.c_uint32), ("flags", ctypes.c_uint32)]


class _Map(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint32) for name in ("kind", "key_size", "value_size", "max_entries", "flags")
    ]


def _bpf(command: int, of: ctypes.Structure) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(SYS_BPF, command, ctypes.byref(of), ctypes.sizeof(of)))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


@dataclass(frozen=True)
class BpfMap:
    """A map, open.

    Attributes:
        fd: Its descriptor.
        key_size: Of each key [bytes].
        value_size: Of each value [bytes].
    """

    fd: int
    key_size: int
    value_size: int

    def __getitem__(self, key: bytes) -> bytes:
        """Return the value of a key.

        Raises:
            OSError: There is none.
        """
        value = ctypes.create_string_buffer(self.value_size)
        self._element(LOOK_UP, key, ctypes.addressof(value))
        return value.raw

    def __setitem__(self, key: bytes, value: bytes) -> None:
        """Set the value of a key.

        Raises:
            OSError: There is no room.
        """
        assert len(value) == self.value_size
        held = ctypes.create_string_buffer(value, len(value))
        self._element(UPDATE, key, ctypes.addressof(held))

    def push(self, value: bytes) -> None:
        """Append a value to a queue.

        Raises:
            OSError: The queue is full.
        """
        self[b""] = value

    def pop(self) -> bytes | None:
        """Remove the first value of a queue; return None if there is none."""
        value = ctypes.create_string_buffer(self.value_size)
        done = _bpf(TAKE, _Element(self.fd, 0, ctypes.addressof(value), 0))
        if done and ctypes.get_errno() == errno.ENOENT:
            return None
        _checked(done)
        return value.raw

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values."""
        after = ctypes.create_string_buffer(self.key_size)
        at: bytes | None = None
        while True:
            key = None if at is None else ctypes.create_string_buffer(at, len(at))
            where = 0 if key is None else ctypes.addressof(key)
            if _bpf(NEXT_KEY, _Element(self.fd, where, ctypes.addressof(after), 0)):
                return
            at = after.raw
            yield at, self[at]

    def _element(self, command: int, key: bytes, value: int) -> None:
        assert len(key) == self.key_size
        at = ctypes.create_string_buffer(key, len(key)) if key else None
        where = 0 if at is None else ctypes.addressof(at)
        _checked(_bpf(command, _Element(self.fd, where, value, 0)))


def _sizes(fd: int) -> tuple[int, int]:
    fields = (line.split() for line in Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines())
    reported = {words[0].rstrip(":"): words[1] for words in fields if len(words) == 2}
    return int(reported["key_size"]), int(reported["value_size"])


@contextmanager
def opened(path: str | Path) -> Iterator[BpfMap]:
    """Open a map that is pinned."""
    name = ctypes.create_string_buffer(str(path).encode())
    fd = _checked(_bpf(OBJ_GET, _Object(ctypes.addressof(name), 0, 0)))
    try:
        yield BpfMap(fd, *_sizes(fd))
    finally:
        os.close(fd)


@contextmanager
def pinned_again(path: str | Path, key_size: int, value_size: int, max_entries: int) -> Iterator[BpfMap]:
    """Pin a new hash table, in place of what is there."""
    Path(path).unlink(missing_ok=True)
    fd = _checked(_bpf(CREATE, _Map(HASH, key_size, value_size, max_entries, NO_PREALLOC)))
    try:
        name = ctypes.create_string_buffer(str(path).encode())
        _checked(_bpf(OBJ_PIN, _Object(ctypes.addressof(name), fd, 0)))
        yield BpfMap(fd, key_size, value_size)
    finally:
        os.close(fd)
