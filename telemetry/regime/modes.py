"""The detector's parameters and times: the paper's, a faster set, and one that ignores a sender's own queue.

Noise thresholds are numbers of events per interval. The paper has 1 per 5 s (section 4.3); for other
intervals, the threshold is scaled, so that in 100 ms a single event already counts. Most such intervals have
no mark even if CUBIC flows fill a queue that marks, because each flow is marked about once a second. So the
faster modes also count marks and retransmissions over the paper's 5 s, in periods of 1 s. Periods of 5 s
would delay the decision by 10 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from telemetry.regime.detector import SHARED, SINGLE_OWNER, DetectorOptions, Regime
from telemetry.regime.errors import RegimeError

STARTS: Final[dict[str, Regime]] = {"single_owner": SINGLE_OWNER, "shared": SHARED}
"""Names for the regime before the first change."""


@dataclass(frozen=True, slots=True)
class Mode:
    """Parameters of detection.

    Attributes:
        window_ms: Interval of the detector, which each observation covers [ms].
        interval_ms: Time between the signals of the receiver [ms]; each covers a window.
        probe_ms: Time between the receiver's probes to a peer [ms].
        options: Parameters of the detector for this window.
    """

    window_ms: int
    interval_ms: int
    probe_ms: int
    options: DetectorOptions

    def options_for(self, window_ms: int) -> DetectorOptions:
        """Return the detector's parameters for another window [ms], with thresholds and periods scaled."""
        return _scaled(self.options, window_ms / self.window_ms)


def _scaled(options: DetectorOptions, ratio: float) -> DetectorOptions:
    return msgspec.structs.replace(
        options,
        noise_ce_marks=options.noise_ce_marks * ratio,
        noise_retransmits=options.noise_retransmits * ratio,
        event_intervals=max(1, round(options.event_intervals / ratio)),
    )


_PAPER_MS: Final = 5000
_FAST_MS: Final = 100
_PERIOD_MS: Final = _PAPER_MS // DetectorOptions().window

_FAST: Final = msgspec.structs.replace(
    _scaled(DetectorOptions(cooldown_s=1.0), _FAST_MS / _PAPER_MS), event_intervals=_PERIOD_MS // _FAST_MS
)

MODES: Final[dict[str, Mode]] = {
    # Sections 4.3 and 4.5: an interval of 5 s, and `ping -i 0.2`.
    "paper": Mode(_PAPER_MS, 1000, 200, DetectorOptions()),
    "fast": Mode(_FAST_MS, 100, 10, _FAST),
    "own": Mode(_FAST_MS, 100, 10, msgspec.structs.replace(_FAST, own_queue=True)),
}


def mode_of(name: str) -> Mode:
    """Return a mode by its name.

    Raises:
        RegimeError: `regime.bad_option`.
    """
    if name not in MODES:
        raise RegimeError(
            "regime.bad_option", f"unknown mode `{name}`", "mode", fix="use " + " or ".join(MODES)
        )
    return MODES[name]


def start_of(name: str) -> Regime:
    """Return the regime with this name.

    Raises:
        RegimeError: `regime.bad_option`.
    """
    if name not in STARTS:
        raise RegimeError(
            "regime.bad_option", f"unknown start regime `{name}`", "start", fix="use " + " or ".join(STARTS)
        )
    return STARTS[name]


def with_settings(options: DetectorOptions, settings: Sequence[str]) -> DetectorOptions:
    """Return options of the detector with some changed.

    Args:
        options: The base options.
        settings: `NAME=VALUE`, with the attributes of `DetectorOptions`.

    Raises:
        RegimeError: `regime.bad_option`.
    """
    values = msgspec.structs.asdict(options)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in values:
            raise RegimeError(
                "regime.bad_option",
                f"cannot parse `{setting}`: expected NAME=VALUE",
                fix="write NAME=VALUE, where NAME is one of " + ", ".join(values),
            )
        values[name] = start_of(text) if name == "start" else text
    try:
        return msgspec.convert(values, DetectorOptions, strict=False)
    except msgspec.ValidationError as error:
        raise RegimeError("regime.bad_option", f"invalid parameter of the detector: {error}") from None
