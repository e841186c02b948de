"""How old a message is when it comes, though clocks of hosts differ.

Wall clocks may be wrong by seconds, monotonic clocks start anywhere. But of one sender the difference between
our monotonic clock at arrival and its own at departure is the same for all messages, but for the time on the
way. So the least difference of the last seconds stands for *no time*, and what is above it is age: a message
that waited in a broker or a queue is found out, whatever the clocks say.

Only of the last seconds: clocks run at different speeds, a sender's may stop while its machine is paused, and
a message may lie about it. What was the least for such a reason is forgotten after two times `WINDOW_US` in
which messages came. While none come, nothing is forgotten: what a sender had queued while the broker was away
comes at once, and is old.

A sender that booted again or slept has another monotonic clock: the difference of its two clocks tells.

What the broker kept (retained messages) was made before we listened. For it there is no difference to compare
with, and wall clocks have to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WINDOW_US: Final = 10_000_000
"""For how long the least difference counts, and for the same time again [us]. In twice that, a clock that is
wrong by 100 ppm strays by 2 ms."""

OTHER_CLOCK_US: Final = 1_000_000
"""By how much a sender's two clocks may part before it counts as another sender [us]."""

MAX_SENDERS: Final = 10_000
"""How many senders are remembered."""


@dataclass(slots=True)
class _Sender:
    """The least differences of the window before and of this one, and when this one began."""

    before_us: int
    least_us: int
    began_us: int
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
            self._senders[sender] = _Sender(difference_us, difference_us, received_us, clocks_us)
            return 0
        if received_us - known.began_us >= WINDOW_US:
            known.before_us, known.least_us, known.began_us = known.least_us, difference_us, received_us
        known.least_us = min(known.least_us, difference_us)
        known.clocks_us = clocks_us
        return difference_us - min(known.before_us, known.least_us)


def retained_age_us(sent_wall_us: int, wall_us: int) -> int:
    """Return how old a retained message is [us], by wall clocks; never negative.

    Args:
        sent_wall_us: Its time by the sender's wall clock [us].
        wall_us: Our wall clock [us].
    """
    return max(0, wall_us - sent_wall_us)
