"""The paper's method: switches a whole host, through its default congestion control and pacing by fq.

A sysctl applies to all flows. So the host is SINGLE_OWNER only while every path with a decision is
SINGLE_OWNER. Existing connections keep their congestion control; new connections use the new default.

Source: K. Nguyen, "R-Hybrid", sections 4.4 and 4.5, and the authors' script rhybrid_apply.sh.

Deviations, with reasons:

* fq is set on the interfaces where the paths begin, unless an administrator chose another qdisc.
* fq stays when the regime changes, because removing it drops its queued packets.
* Pacing rates are options; the script's "high" and "conservative" pacing are the same `fq pacing 1`.
* All settings are restored at the end, or at the next start.
"""

from __future__ import annotations

from pathlib import Path as File
from typing import Final

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
from ccplane.agent.features.regime.namespace import inside
from ccplane.agent.features.regime.rules import MAX_RATE_BYTES_PER_S
from ccplane.agent.features.regime.settings import HostSettings
from telemetry.regime.detector import SHARED, SINGLE_OWNER, Regime
from telemetry.regime.follow import Path

NOTHING_DECIDED: Final = "no decision about this host's paths yet"


class HostActuator:
    """Switches a whole network namespace; a `ccplane.agent.features.regime.actuator.Actuator`."""

    def __init__(
        self,
        single: str,
        shared: str,
        single_rate_bytes_per_s: int | None = None,
        shared_rate_bytes_per_s: int | None = None,
        netns: File | None = None,
        settings: HostSettings | None = None,
    ) -> None:
        """Claim the host; nothing is switched before `apply`.

        Args:
            single: Congestion control while all paths are SINGLE_OWNER.
            shared: Congestion control otherwise.
            single_rate_bytes_per_s: Maximum rate of each flow while all paths are SINGLE_OWNER, if the kernel
                has fq [bytes/s]; None for no limit.
            shared_rate_bytes_per_s: Maximum rate of each flow otherwise [bytes/s].
            netns: Network namespace; None for the calling thread's.
            settings: Settings of the namespace; None for the kernel's.

        Raises:
            SwitchError: `switch.no_congestion_control`, `switch.bad_rate`, `switch.no_netns`,
                `switch.host_in_use` or `switch.not_permitted`.
        """
        self._congestion: dict[Regime, str] = {SINGLE_OWNER: stand_in(single), SHARED: stand_in(shared)}
        self._rates: dict[Regime, int | None] = {
            SINGLE_OWNER: _rate("single", single_rate_bytes_per_s),
            SHARED: _rate("shared", shared_rate_bytes_per_s),
        }
        self._netns = netns
        self._regime: Regime | None = None
        self._own: dict[Path, bool] = {}
        self._lost: set[Path] = set()
        self._looked_at: set[int] = set()
        self._paced: list[int] = []
        with inside(self._netns):
            self._settings = (settings or HostSettings()).__enter__()

    def apply(self, regimes: Regimes) -> list[RegimeEvent]:
        """Switch if the regime of the host changed; paths of other hosts are ignored.

        Returns:
            `regime:switched`, `regime:fail_safe` for each path, and `regime:refused` if fq cannot be set.

        Raises:
            SwitchError: As `ccplane.agent.features.regime.settings.HostSettings.choose`.
        """
        with inside(self._netns):
            paced = len(self._paced)
            events = [event for path in regimes if path not in self._own for event in self._meet(path)]
            self._own = {path: self._own[path] for path in regimes}
            own = {path: standing for path, standing in regimes.items() if self._own[path]}
            events += self._fail_safes(own)
            regime, reason = _of_host(own)
            if regime != self._regime:
                before = self._settings.choose(self._congestion[regime])
                self._regime = regime
                events.append(_switched(before, self._congestion[regime], regime, reason))
                paced = 0
            for index in self._paced[paced:]:
                self._settings.limit(index, self._rates[regime])
        return events

    def close(self, *, leave: bool) -> list[RegimeEvent]:
        """Stop, and restore the settings unless `leave` is set; return the events.

        Raises:
            SwitchError: `switch.not_permitted`.
        """
        with inside(self._netns):
            if leave:
                self._settings.leave()
                return []
            self._settings.__exit__()
        if self._regime is None:
            return []
        before = self._settings.before.congestion
        return [_switched(self._congestion[self._regime], before, self._regime, PUT_BACK)]

    def _meet(self, path: Path) -> list[RegimeEvent]:
        """Check whether a new path belongs to this host, and set fq on its interface."""
        self._own[path] = self._settings.is_here(path.peer)
        if path.address is None or not self._own[path]:
            return []
        index = self._settings.interface_to(path.address)
        if index is None or index in self._looked_at:
            return []
        self._looked_at.add(index)
        if why := self._settings.pace(index):
            return [RegimeEvent(kind=REFUSED, wanted="fq", why=why)]
        self._paced.append(index)
        return []

    def _fail_safes(self, own: Regimes) -> list[RegimeEvent]:
        """Return an event for each path whose decision has just been lost."""
        lost = {path for path, standing in own.items() if standing.lost}
        new, self._lost = lost - self._lost, lost
        return [RegimeEvent(kind=FAIL_SAFE, why=_said(path, own)) for path in sorted(new, key=str)]


def _of_host(own: Regimes) -> tuple[Regime, str]:
    """Return the regime of a host, and why."""
    if not own:
        return SHARED, NOTHING_DECIDED
    shared = next((path for path, standing in own.items() if standing.regime == SHARED), None)
    if shared is None:
        return SINGLE_OWNER, f"all {len(own)} paths are SINGLE_OWNER"
    return SHARED, _said(shared, own)


def _said(path: Path, own: Regimes) -> str:
    return f"path to {path.address or 'all destinations'}: {own[path].reason}"


def _switched(before: str, after: str, regime: Regime, reason: str) -> RegimeEvent:
    return RegimeEvent(kind=SWITCHED, before=before, after=after, regime=regime, reason=reason)


def _rate(regime: str, rate_bytes_per_s: int | None) -> int | None:
    if rate_bytes_per_s is not None and not 1 <= rate_bytes_per_s <= MAX_RATE_BYTES_PER_S:
        raise SwitchError(
            "switch.bad_rate",
            f"{rate_bytes_per_s} bytes/s is not a valid rate of a flow",
            f"--{regime}-rate",
            "fq stores rates in 32 bits",
            f"give 1 to {MAX_RATE_BYTES_PER_S}, or omit the option for no limit",
        )
    return rate_bytes_per_s
