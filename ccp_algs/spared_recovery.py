"""Three ways to set the window while the kernel repairs losses that cause no reduction, in a fold program.

* GROWS: the window keeps growing as if nothing had happened.
* HELD: the window stays constant until the kernel is back in Open or Disorder. A constant window is the
  behaviour of a congestion control with `cong_avoid`, such as that of Flex-Cubic's authors: Linux does not
  call `cong_avoid` during a repair.
* PRR: in addition, the window follows deliveries (RFC 6937), as in Linux: only what was delivered is
  released, plus one segment per ACK. Afterwards the old window is restored.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ccp_algs.episodes import AFTER_TIMEOUT, CUT, LOSS, RECOVERY, Episodes
from ccp_algs.fold import Block, Cwnd, Flow, Part, Register, let, max_, min_, on, state
from ccp_algs.fold.lines import LocalFlag
from ccp_algs.reduction import pipe_and_delivered

GROWS: Final = 0
HELD: Final = 1
PRR: Final = 2


@dataclasses.dataclass(frozen=True)
class SparedRecovery(Part):
    """Registers and lines; in a fold program they go after growth and slow start.

    Attributes:
        held_bytes: Window to restore afterwards, while the window follows deliveries [bytes].
    """

    held_bytes: Register
    follow: Block


def growing(loss: Episodes, spared_window: Register) -> LocalFlag:
    """Return the condition under which the window may grow, for growth and slow start."""
    return let(loss.may_grow & ((spared_window == GROWS) | (Flow.ca_state != RECOVERY)))


def spared_recovery(loss: Episodes, spared_window: Register) -> SparedRecovery:
    """Build the registers and lines that set the window during a repair without a reduction.

    Args:
        loss: The program's loss episodes.
        spared_window: The register that selects the interpretation.
    """
    held_bytes = state()
    cut = let((loss.kind == CUT) & (held_bytes > 0), "cut_while_held")
    repairing = (Flow.ca_state == RECOVERY) & (loss.episode <= AFTER_TIMEOUT)
    return SparedRecovery(
        held_bytes=held_bytes,
        follow=on(
            spared_window == PRR,
            # The reduction is relative to the window from before the recovery.
            cut,
            loss.prior_bytes.set(max_(loss.prior_bytes, held_bytes), when=cut),
            loss.ssthresh_bytes.set(loss.prior_bytes * loss.cut_permille // 1000, when=cut),
            held_bytes.set(0, when=cut | (Flow.ca_state == LOSS)),
            Cwnd.set(max_(Cwnd, held_bytes), when=Flow.ca_state < RECOVERY),
            held_bytes.set(0, when=Flow.ca_state < RECOVERY),
            held_bytes.set(max_(held_bytes, Cwnd), when=repairing),
            Cwnd.set(max_(min_(held_bytes, pipe_and_delivered() + Flow.mss), 2 * Flow.mss), when=repairing),
        ),
    )
