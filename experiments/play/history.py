"""What a display knows: the samples, marks, errors and state of the messages so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from experiments.play.messages import Message
from experiments.play.series import INTERVAL_US
from experiments.play.setting import Setting

KEPT_S: Final = 300
"""Time for which samples are kept [s]."""

_SAMPLES: Final = KEPT_S * 1_000_000 // INTERVAL_US
_MARKS: Final = 1000


@dataclass(slots=True)
class FlowHistory:
    """Samples of a flow, in the units of the messages; None where there is no value."""

    name: str
    cwnd_bytes: deque[float | None] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    srtt_us: deque[float | None] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    goodput_bytes_per_s: deque[float | None] = field(default_factory=lambda: deque(maxlen=_SAMPLES))


class History:
    """The messages so far.

    Attributes:
        times: Times of the samples [s].
        flows: The flows.
        marks: The marks.
        paths: Settings, each with the time from which it applies [s].
        state: The last state; empty before the first.
        error: Text of the last error, until the next save or restart.
    """

    def __init__(self) -> None:
        self.times: deque[float] = deque(maxlen=_SAMPLES)
        self.flows: list[FlowHistory] = []
        self.marks: deque[Message] = deque(maxlen=_MARKS)
        self.paths: list[tuple[float, Setting]] = []
        self.state: Message = {}
        self.error = ""

    @property
    def now_s(self) -> float:
        """Time of the last sample [s]."""
        return self.times[-1] if self.times else 0.0

    def take(self, messages: Iterable[Message]) -> None:
        """Take messages in order."""
        for message in messages:
            match message["type"]:
                case "samples":
                    self._samples(message)
                case "mark":
                    self.marks.append(message)
                    if message["kind"] == "save":
                        self.error = ""
                case "error":
                    self.error = message["text"]
                case "state":
                    self._state(message)

    def messages(self) -> list[Message]:
        """Return messages with all that is kept, for a display that begins now."""
        if not self.state:
            return []
        flows = [
            {
                "name": flow.name,
                "cwnd_bytes": list(flow.cwnd_bytes),
                "srtt_us": list(flow.srtt_us),
                "goodput_bytes_per_s": list(flow.goodput_bytes_per_s),
            }
            for flow in self.flows
        ]
        samples = {"type": "samples", "t_s": list(self.times), "flows": flows}
        error = [{"type": "error", "text": self.error}] if self.error else []
        return [self.state, *([samples] if flows else []), *self.marks, *error]

    def _samples(self, message: Message) -> None:
        if not self.flows:
            self.flows = [FlowHistory(flow["name"]) for flow in message["flows"]]
        self.times.extend(message["t_s"])
        for own, flow in zip(self.flows, message["flows"], strict=True):
            own.cwnd_bytes.extend(flow["cwnd_bytes"])
            own.srtt_us.extend(flow["srtt_us"])
            own.goodput_bytes_per_s.extend(flow["goodput_bytes_per_s"])

    def _state(self, message: Message) -> None:
        if message["t_s"] < self.now_s:  # begun again
            self.__init__()  # type: ignore[misc]
        self.state = message
        setting = Setting.of(message["setting"])
        if not self.paths or self.paths[-1][1] != setting:
            self.paths.append((message["t_s"], setting))
