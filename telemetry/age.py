"""How old a message is when it comes, though clocks of hosts differ.

Wall clocks may be wrong by seconds, monotonic clocks start anywhere. But of one sender the difference between
our monotonic clock at arrival and its own at departure is the same for all messages, but for the time on the
way. So the least difference seen stands for *no time*, and what is above it is age: a message that waited in
a broker or a queue is found out, whatever the clocks say. Clocks also run at different speeds; the least
difference is therefore let up by 100 us/s, more than any clock of a computer strays.

A sender that booted again or slept has another monotonic clock: the difference of its two clocks tells.

What the broker kept (retained messages) was made before we listened. For it there is no difference to compare
with, and wall clocks have to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DRIFT_US_PER_S: Final = 100
"""How fast the least difference is let up [us/s]: 100 ppm."""

OTHER_CLOCK_US: Final = 1_000_000
"""By how much a sender's two clocks may part before it counts as another sender [us]."""

MAX_SENDERS: Final = 10_000
"""How many senders are remembered."""


@dataclass(slots=True)
class _Sender:
    least_us: float
    seen_us: int
    clocks_us: int


class Ages:
    """Tells the age of messages from what came before."""

    def __init__(self) -> None:
        """Know no sender."""
        self._senders: dict[str, _Sender] = {}

    def age_us(self, sender: str, sent_mono_us: int, sent_wall_us: int, received_us: int) -> int:
        """Return how old a message is at arrival [us]; 0 for the first of a sender.

        Args:
            sender: Who sent it.
            sent_mono_us: Its time by the sender's monotonic clock [us].
            sent_wall_us: Its time by the sender's wall clock [us].
            received_us: Our monotonic clock [us].
        """
        difference_us = received_us - sent_mono_us
        clocks_us = sent_wall_us - sent_mono_us
        known = self._senders.get(sender)
        if known is None or abs(clocks_us - known.clocks_us) > OTHER_CLOCK_US:
            if len(self._senders) >= MAX_SENDERS:
                self._senders.clear()
            self._senders[sender] = _Sender(difference_us, received_us, clocks_us)
            return 0
        known.least_us += max(0, received_us - known.seen_us) * DRIFT_US_PER_S / 1e6
        known.least_us = min(known.least_us, difference_us)
        known.seen_us, known.clocks_us = received_us, clocks_us
        return round(difference_us - known.least_us)


def retained_age_us(sent_wall_us: int, wall_us: int) -> int:
    """Return how old a retained message is [us], by wall clocks; never negative.

    Args:
        sent_wall_us: Its time by the sender's wall clock [us].
        wall_us: Our wall clock [us].
    """
    return max(0, wall_us - sent_wall_us)
