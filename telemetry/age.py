"""The age of a message at its arrival, although the clocks of hosts differ.

Wall clocks may be wrong by seconds, and monotonic clocks start anywhere. But for one sender, the difference
between the receiver's monotonic clock at arrival and the sender's at departure is constant, except for the
transit time. So the minimum difference of the last seconds stands for age 0, and the excess over it is the
age. A large age reveals messages that waited in a broker or a queue, whatever the clocks show.

The minimum covers only the last seconds, because clocks run at different speeds, a sender's clock may stop
while its machine is paused, and a message may contain a wrong time. A wrong minimum is forgotten after two
times `WINDOW_US` in which messages arrive. Without messages nothing is forgotten, so messages that a sender
queued while the broker was away count as old when they arrive together.

After a reboot or suspend, a sender has another monotonic clock; the difference of the sender's two clocks
reveals the change.

Messages that the broker retained were created before the subscription. Retained messages have no difference
to compare with, so their age comes from wall clocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WINDOW_US: Final = 10_000_000
"""The minimum difference covers this time and up to the same time again [us]. In twice this time, a clock
that is wrong by 100 ppm drifts by 2 ms."""

OTHER_CLOCK_US: Final = 1_000_000
"""Change of the difference between a sender's two clocks above which it counts as a new sender [us]."""

MAX_SENDERS: Final = 10_000
"""Maximum number of remembered senders."""


@dataclass(slots=True)
class _Sender:
    """The minimum differences of the previous and the current window, and the start of the current one."""

    before_us: int
    min_us: int
    began_us: int
    clocks_us: int


class Ages:
    """Computes the age of messages from earlier messages."""

    def __init__(self) -> None:
        self._senders: dict[str, _Sender] = {}

    def age_us(self, sender: str, sent_mono_us: int, sent_wall_us: int, received_us: int) -> int:
        """Return the age of a message at arrival [us]; 0 for the first message of a sender.

        Args:
            sender: Its sender.
            sent_mono_us: Its time on the sender's monotonic clock [us].
            sent_wall_us: Its time on the sender's wall clock [us].
            received_us: Time of arrival, CLOCK_MONOTONIC of this host [us].
        """
        difference_us = received_us - sent_mono_us
        clocks_us = sent_wall_us - sent_mono_us
        known = self._senders.get(sender)
        if known is None or abs(clocks_us - known.clocks_us) > OTHER_CLOCK_US:
            if len(self._senders) >= MAX_SENDERS:
                self._senders.clear()
            self._senders[sender] = _Sender(difference_us, difference_us, received_us, clocks_us)
            return 0
        if received_us - known.began_us >= WINDOW_US:
            known.before_us, known.min_us, known.began_us = known.min_us, difference_us, received_us
        known.min_us = min(known.min_us, difference_us)
        known.clocks_us = clocks_us
        return difference_us - min(known.before_us, known.min_us)


def retained_age_us(sent_wall_us: int, wall_us: int) -> int:
    """Return the age of a retained message by wall clocks [us]; never negative.

    Args:
        sent_wall_us: Its time on the sender's wall clock [us].
        wall_us: This host's wall clock [us].
    """
    return max(0, wall_us - sent_wall_us)
