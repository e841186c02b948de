"""The window from a reduction until its repair, as part of a fold program: immediate, or proportional (PRR).

* Immediate: the window drops to the threshold. Sending pauses until no more data than the threshold is in
  flight; then an ACK releases as much data as it delivers, and one segment more if it acknowledges in
  sequence and shows no loss. No additional data is sent later to make up for the pause.
* Proportional: the window falls to the threshold over a round trip, in proportion to the delivered data. Once
  no more data than the threshold is in flight, an ACK releases at least what it delivers, and one segment
  more under the same condition, until all that was delivered since the reduction has been replaced.

The parameter `prr` selects: `echo` (default) is proportional after ECN echoes and immediate after losses.
Linux is always proportional. After echoes the difference decides about shares: a flow that pauses lets the
queue fall below the marking threshold while it sends nothing, so its own packets are marked less often than
those of a flow of Linux that reduces by as much.

PRR counts the data sent since the reduction (`prr_out`). The datapath does not report it, but all data sent
is delivered, lost or in flight: prr_out = in flight - conserved, where `conserved_bytes` is the data that
would be in flight if nothing had been sent since. With D delivered bytes, the window of RFC 9937, in flight +
(D ssthresh / RecoverFS - prr_out), is therefore conserved + D ssthresh / RecoverFS.

Source: RFC 9937; the immediate reduction has only its rule at or below the threshold. Deviations: RecoverFS
is the window before the reduction, as in Linux. D stops at RecoverFS, so that the proportional window never
exceeds the threshold if more than a window is delivered before the repair. Above the threshold the first
segment is sent when the window allows it, an ACK or two later than RFC 9937 forces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ccp_algs.fold import Ack, Flow, Part, Register, Statement, control, let, max_, min_, state
from ccp_algs.fold.expressions import Flag, Num
from ccp_algs.fold.lines import Local
from ccp_algs.params import Param

_DISORDER: Final = 1
NEVER: Final = 0
ECHO: Final = 3
ALWAYS: Final = 4
_MODES: Final = {"never": NEVER, "echo": ECHO, "always": ALWAYS}
"""Values of the parameter and of the register: the kernel's reducing states below it are proportional."""


@dataclass(frozen=True)
class Reduction(Part):
    """Registers of the window during a reduction; they are part of `Episodes`.

    Attributes:
        prr: Which reductions are proportional: NEVER, ECHO, ALWAYS.
        conserved_bytes: Data in flight if nothing had been sent since the reduction, at least 1 [bytes]; 0:
            the reduction is immediate.
        repaired_bytes: Delivered since a proportional reduction [bytes].
    """

    prr: Register
    conserved_bytes: Register
    repaired_bytes: Register

    def follow(
        self,
        window_bytes: Register,
        cut: Flag,
        reducing: Flag,
        ssthresh_bytes: Num,
        prior_bytes: Num,
    ) -> Sequence[Statement | Local]:
        """Return the statements that set `window_bytes`.

        Args:
            window_bytes: The register to set.
            cut: A reduction begins on this ACK.
            reducing: A reduction is going on, or begins.
            ssthresh_bytes: The threshold.
            prior_bytes: Window before the reduction.
        """
        in_flight, conserved, repaired = Flow.bytes_in_flight, self.conserved_bytes, self.repaired_bytes
        delivered = let(_delivered(), "delivered_now_bytes")
        gone = let(delivered + Ack.lost_pkts_sample * Flow.mss, "gone_now_bytes")
        chosen = (Flow.ca_state > _DISORDER) & (Flow.ca_state < self.prr)
        is_prr = let(conserved > 0, "is_prr")
        falls = let(reducing, "falls")
        released = let(max_(in_flight + delivered, conserved + repaired), "released")
        share_bytes = min_(repaired, prior_bytes) * min_(ssthresh_bytes, prior_bytes) // prior_bytes
        return [
            delivered,
            falls,
            gone,
            conserved.set(max_(conserved - gone, min_(conserved, 1))),
            conserved.set(0, when=cut),
            conserved.set(in_flight, when=cut & chosen),
            is_prr,
            repaired.set(0, when=cut),
            repaired.add(delivered, when=is_prr),
            released,
            window_bytes.set(min_(ssthresh_bytes, released), when=falls),
            window_bytes.set(min_(ssthresh_bytes, released + Flow.mss), when=falls & _is_safe()),
            window_bytes.set(
                max_(conserved + share_bytes, in_flight), when=falls & is_prr & (in_flight > ssthresh_bytes)
            ),
        ]


def reduction() -> Reduction:
    """Build the registers."""
    return Reduction(prr=control(ECHO), conserved_bytes=state(), repaired_bytes=state())


def prr_param() -> Param[str]:
    """Return the parameter; `prr_register` converts its value."""
    doc = "reductions over a round trip (PRR, RFC 9937), not immediate: none, after ECN echoes, all"
    return Param("echo", choices=tuple(_MODES), doc=doc)


def prr_register(prr: str) -> int:
    """Return the register's value for the parameter's."""
    return _MODES[prr]


def pipe_and_delivered() -> Num:
    """Return the window that releases as much data as this ACK delivers [bytes]."""
    return Flow.bytes_in_flight + _delivered()


def _delivered() -> Num:
    return (Ack.packets_acked + Ack.packets_misordered) * Flow.mss


def _is_safe() -> Flag:
    """Return whether this ACK makes progress and shows no loss (RFC 9937 calls it SafeACK)."""
    return (Ack.bytes_acked > 0) & (Ack.lost_pkts_sample == 0)
