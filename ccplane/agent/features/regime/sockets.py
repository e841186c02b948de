"""Applies regimes to single TCP sockets, with BPF programs.

No host-wide setting changes. The kernel stores the application's choice with each socket, and restores it at
the end.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path as File
from typing import Any, Final

import msgspec

from ccplane.agent.features.regime.actuator import (
    FAIL_SAFE,
    PUT_BACK,
    REFUSED,
    SWITCHED,
    RegimeEvent,
    Regimes,
)
from ccplane.agent.features.regime.congestion import stand_in
from ccplane.agent.features.regime.errors import SwitchError
from ccplane.agent.features.regime.namespace import cookie, inside
from ccplane.agent.features.regime.rules import SocketRule, Treatment, entries
from ccplane.base import clock
from ccplane.datapath import ebpf
from telemetry.bus import mono_us, wall_us
from telemetry.regime.detector import Regime
from telemetry.regime.follow import Path, Standing
from telemetry.schema import FlowId, unpacked

log = logging.getLogger("ccplane.regime")

MOUNTS: Final = File("/proc/self/mounts")

# `enum switch_what` of native/ccp-switch/src/bpf/switch.h.
_DONE: Final = 1
_NO_ECN: Final = 2
_FAILED: Final = 3
_SEEN: Final = 4

LOOK_AGAIN_US: Final = 1_000_000
"""Interval between checks of all sockets without a new decision [us], because an application may have changed
a
socket's congestion control meanwhile, as iperf3 does after `connect`."""

LEASE_S: Final = 3.0
"""Lease [s]: without a renewal in this time, the kernel restores the sockets."""

_TABLES_KEPT: Final = 8
"""Old tables kept: unread events may refer to a replaced table."""


class SocketActuator:
    """Switches the TCP sockets of one network namespace; an `Actuator` of this feature."""

    def __init__(
        self,
        treatments: Mapping[Regime, Treatment],
        rules: Sequence[SocketRule] = (),
        *,
        netns: File | None = None,
        cgroup: File | None = None,
    ) -> None:
        """Load the programs; nothing is switched before `apply`.

        Args:
            treatments: Settings of sockets in each regime. ccplane's algorithms replace congestion controls
                that the kernel lacks.
            rules: Selection of sockets; if empty, all sockets whose path has a decision.
            netns: Network namespace; None for the calling thread's.
            cgroup: Only sockets created in this cgroup or below; None for all.

        Raises:
            SwitchError: `switch.no_congestion_control`, `switch.no_cgroup` or `switch.no_netns`.
            LoadError: `load.no_native_module`.
            CcpError: `switch.no_cgroup`, `switch.no_bpffs`, `switch.not_permitted`, `switch.refused` or
                `load.no_btf`.
        """
        self._treatments = {
            regime: msgspec.structs.replace(one, congestion=stand_in(one.congestion))
            for regime, one in treatments.items()
        }
        self._rules = rules
        self._cgroup = cgroup
        self._netns = netns
        self._key: dict[Path, tuple[Regime, str]] | None = None
        self._due_us = 0
        self._reporting = False
        self._tables: deque[tuple[int, list[Standing]]] = deque(maxlen=_TABLES_KEPT)
        self._dropped = 0
        with inside(netns):
            namespace = cookie()
        self._switch = ebpf.socket_switch(cgroup or cgroup_root(), namespace)
        self._renew()

    def apply(self, regimes: Regimes) -> list[RegimeEvent]:
        """Switch sockets whose regime or congestion control changed; return the events since the last call.

        Raises:
            CcpError: `switch.refused`.
        """
        key = {path: (standing.regime, standing.lost) for path, standing in regimes.items()}
        now_us = mono_us()
        self._renew()
        changed = key != self._key
        if changed or now_us >= self._due_us:
            if changed or self._reporting:  # each loss is reported once per socket
                self._write(regimes, self._newly_lost(regimes))
            self._key, self._due_us = key, now_us + LOOK_AGAIN_US
            with inside(self._netns):
                self._switch.switch_all()
        return self._events()

    def close(self, *, leave: bool) -> list[RegimeEvent]:
        """Stop, and restore the applications' choices unless `leave` is set; return the last events."""
        try:
            with inside(self._netns):
                if leave:
                    self._switch.leave_all()
                else:
                    self._switch.restore_all()
            return self._events()
        finally:
            self._switch.close()

    def _renew(self) -> None:
        self._switch.renew(clock.now_ns() + round(LEASE_S * 1e9))

    def _newly_lost(self, regimes: Regimes) -> frozenset[Path]:
        before = self._key or {}
        return frozenset(
            path for path, one in regimes.items() if one.lost and not before.get(path, ("", ""))[1]
        )

    def _write(self, regimes: Regimes, emit: frozenset[Path]) -> None:
        made = entries(self._rules, self._treatments, regimes, emit, self._cgroup)
        version = self._switch.set_rules(msgspec.json.encode([entry for entry, _ in made]))
        self._tables.append((version, [standing for _, standing in made]))
        self._reporting = bool(emit)

    def _events(self) -> list[RegimeEvent]:
        dropped = self._switch.dropped
        if dropped != self._dropped:
            log.warning("lost %d events of sockets: too many at the same time", dropped)
            self._dropped = dropped
        return [self._event(row) for row in self._switch.drain()]

    def _event(self, row: Any) -> RegimeEvent:
        what, after = int(row["what"]), row["after"].decode()
        standing = self._standing(int(row["version"]), int(row["rule"]))
        reported: dict[str, str] = {"regime": "" if standing is None else standing.regime}
        reason = PUT_BACK if standing is None else standing.reason
        if what == _SEEN:
            reported |= {"kind": FAIL_SAFE, "why": reason}
        elif what in (_NO_ECN, _FAILED):
            wanted = "" if standing is None else self._treatments[standing.regime].congestion
            reported |= {"kind": REFUSED, "wanted": wanted, "why": _why(what, int(row["error"]))}
        else:
            reported |= {"kind": SWITCHED, "before": row["before"].decode(), "after": after, "reason": reason}
        t_us = int(row["t_us"])
        return RegimeEvent(
            t_mono_us=t_us, t_wall_us=wall_us() - (mono_us() - t_us), flow=_flow_of(row), **reported
        )

    def _standing(self, version: int, index: int) -> Standing | None:
        """Return the regime of an entry of a table; None for events of the restoring at the end."""
        standings = next((made for known, made in self._tables if known == version), [])
        return standings[index] if index < len(standings) else None


def cgroup_root(mounts: File = MOUNTS) -> File:
    """Return the mount point of the cgroup v2 hierarchy.

    Raises:
        SwitchError: `switch.no_cgroup`.
    """
    for line in mounts.read_text().splitlines():
        _, place, kind, *_ = line.split(" ")
        if kind == "cgroup2":
            return File(place)
    raise SwitchError(
        "switch.no_cgroup",
        "no cgroup v2 hierarchy is mounted",
        str(mounts),
        "new sockets are detected through cgroup v2",
        "run `mount -t cgroup2 none DIRECTORY`; this mount needs no controllers, and does not affect "
        "cgroup v1",
    )


def _flow_of(row: Any) -> FlowId:
    src, dst = (unpacked(row[name].tobytes()) for name in ("saddr", "daddr"))
    return FlowId(src=src, src_port=int(row["sport"]), dst=dst, dst_port=int(row["dport"]))


def _why(what: int, error: int) -> str:
    if what == _NO_ECN:
        return "the connection did not negotiate ECN when it began"
    return os.strerror(-error)
