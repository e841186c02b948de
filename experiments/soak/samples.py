"""Measurements of a soak test: memory, descriptors, threads; slots, maps and programs in the kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR
from experiments.bench import bpf_objects
from experiments.soak.judge import Point

MEMORY: Final = "pss_bytes"
ANONYMOUS: Final = "anonymous_bytes"
"""Only anonymous memory counts, because the share of a library's memory depends on other processes that use
it.
"""
LIMITS: Final = {
    MEMORY: 4 << 20,
    ANONYMOUS: 4 << 20,
    "fds": 2.0,
    "threads": 2.0,
    "slots_without_socket": 2.0,
    "maps": 2.0,
    "programs": 2.0,
    "pins": 2.0,
    "map_bytes": float(1 << 20),
}
"""Maximum growth of a series per hour; `ENTRIES_PER_HOUR` for entries of maps."""
ENTRIES_PER_HOUR: Final = 10.0

_SMAPS: Final = re.compile(r"^(Pss|Pss_Anon):\s+(\d+) kB", re.MULTILINE)


def process(pid: int) -> dict[str, float]:
    """Return the resources of a process.

    Raises:
        OSError: If the process has exited.
    """
    root = Path(f"/proc/{pid}")
    found = {name: 1024 * int(kb) for name, kb in _SMAPS.findall((root / "smaps_rollup").read_text())}
    threads = re.search(r"^Threads:\s+(\d+)$", (root / "status").read_text(), re.MULTILINE)
    assert threads is not None
    return {
        MEMORY: found["Pss"],
        ANONYMOUS: found["Pss_Anon"],
        "fds": len(os.listdir(root / "fd")),
        "threads": int(threads[1]),
    }


def kernel(ccp_sockets: int) -> dict[str, float]:
    """Return the resources of the datapath, and the BPF objects of this machine."""
    counters = ebpf.observe(PIN_DIR).counters()
    return {
        "slots_without_socket": counters["flows_active"] - ccp_sockets,
        "map_bytes": sum(bpf_objects.memory_of_maps(PIN_DIR).values()),
        "maps": len(bpf_objects.maps()),
        "programs": len(bpf_objects.programs()),
        "pins": sum(1 for _ in Path(PIN_DIR).rglob("*")),
        **{f"entries of {name}": many for name, many in bpf_objects.entries_of_maps(PIN_DIR).items()},
    }


class Series:
    """All series of a run: `PROGRAM NAME` -> points."""

    def __init__(self) -> None:
        self.points: dict[str, list[Point]] = {}

    def add(self, at_s: float, what: str, life: str, values: Mapping[str, float]) -> None:
        """Add a sample of each value of a program."""
        for name, value in values.items():
            self.points.setdefault(f"{what} {name}", []).append(Point(round(at_s, 1), life, value))

    def as_dict(self) -> dict[str, Any]:
        """Return all points as lists of time, process and value."""
        return {
            name: [[point.at_s, point.life, point.value] for point in points]
            for name, points in self.points.items()
        }


def limit_of(series: str) -> float:
    """Return the maximum growth of a series, in its unit per hour."""
    name = series.partition(" ")[2]
    return ENTRIES_PER_HOUR if name.startswith("entries of ") else float(LIMITS[name])


def middle(looks: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each value over several readings."""
    return {name: median(look[name] for look in looks if name in look) for name in looks[0]}
