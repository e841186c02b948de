"""What a window does while the kernel repairs losses that were spared: three readings, in a fold program.

* GROWS: it grows on, as if nothing had happened.
* HELD: it stays as it is until the kernel is back in Open or Disorder. So it is with a congestion control
  that has `cong_avoid`, as the program of Flex-Cubic's authors: Linux does not call that while it repairs.
* PRR: besides, it follows what is delivered (RFC 6937), as Linux has it then: nothing is sent that was not
  delivered, but for a segment an ACK. Afterwards it is what it was.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ccp_algs.episodes import AFTER_TIMEOUT, RECOVERY, Episodes, pipe_and_delivered
from ccp_algs.fold import Block, Cwnd, Flow, Part, Register, let, max_, min_, on, state
from ccp_algs.fold.lines import LocalFlag

GROWS: Final = 0
HELD: Final = 1
PRR: Final = 2


@dataclasses.dataclass(frozen=True)
class SparedRecovery(Part):
    """Registers and lines; it goes behind growth and slow start.

    Attributes:
        held_bytes: What the window is again afterwards, while it follows what is delivered [bytes].
    """

    held_bytes: Register
    follow: Block


def growing(loss: Episodes, spared_window: Register) -> LocalFlag:
    """Return when the window may grow, for growth and slow start."""
    return let(loss.may_grow & ((spared_window == GROWS) | (Flow.ca_state < RECOVERY)))


def spared_recovery(loss: Episodes, spared_window: Register) -> SparedRecovery:
    """Build the part.

    Args:
        loss: The program's loss episodes.
        spared_window: The register that chooses.
    """
    held_bytes = state()
    repairing = (Flow.ca_state == RECOVERY) & (loss.episode <= AFTER_TIMEOUT)
    return SparedRecovery(
        held_bytes=held_bytes,
        follow=on(
            spared_window == PRR,
            Cwnd.set(max_(Cwnd, held_bytes), when=Flow.ca_state < RECOVERY),
            held_bytes.set(0, when=Flow.ca_state < RECOVERY),
            held_bytes.set(max_(held_bytes, Cwnd), when=repairing),
            Cwnd.set(max_(min_(held_bytes, pipe_and_delivered() + Flow.mss), 2 * Flow.mss), when=repairing),
        ),
    )
