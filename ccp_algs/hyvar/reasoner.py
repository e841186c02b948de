"""Hyvar's state reasoner: how long the next interval is, who has the window, what losses cost the policy.

With q = RTT / RTT_min - 1, its gradient g, and the share of lost packets:

    case 1   q <= alpha, loss < delta, g < 0     MTP <- MTP * 2^S(-g / alpha)     the queue drains: look less
    case 2   q <= alpha, loss < delta, g >= 0    MTP <- MTP * e^(-g / alpha)      it grows: look more often
    case 3   q <= alpha, loss >= delta           MTP stays; the learned policy has the window alone
    case 4   q > alpha                           MTP <- MTP * e^(-q / alpha)      a long queue: look at once

Source: the slides "Hybrid Congestion Control with Variable Monitoring Time Period" (Qiu et al.), Design.
What they leave open, and what is done here:

* S(x) is not defined. It is the logistic function, S(x) = 1 / (1 + e^-x), with x = -g / alpha: the MTP
  grows by 1.41 where the queue just does not grow, up to 2 where it drains fast.
* Case 3 reads `Loss < delta`, which would be cases 1 and 2 again, and no case would be left for losses
  without a queue. It is taken for a misprint of `Loss >= delta`: losses that no queue explains are what
  CUBIC answers wrongly, and the reason to switch to the policy.
* Case 4 does not look at losses. The slides switch in case 3 only: CUBIC and the policy have the window, and
  CUBIC answers losses. So it is here. With `case4_alone` the policy is alone at the shortest MTP, and losses
  are its affair. docs/papers/hyvar.md holds the two against each other.
* In case 4 losses have a price here, which the slides do not have. Where several flows keep a queue full,
  each has a small part of the path, for which the policy raises its window again and again: eight of them
  sent 14 % twice. The factor is divided by 2^(price * part * (loss - delta)), sqrt(2) at most, part being the
  flow's throughput by the path's, loss smoothed. It is Kelly's law: who has more pays more, which makes for
  equal parts; with the bound nobody is priced out of the path. Without losses, and with `loss_price` = 0, it
  is as in the slides. Source: F. Kelly, A. Maulloo and D. Tan, "Rate Control for Communication Networks",
  JORS 49, 1998, its primal algorithm. Deviations: a factor instead of a rate, and the bound.
* alpha, delta and the bounds of the MTP are not given: parameters, see `algorithms.py`.
* How RTT is normalised is not said: see `collector.py`.
* "MTP_n <- MTP_n - 1" in case 4 is read as MTP_(n-1), as in the other cases.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ccp_algs.hyvar.collector import Floats, States

_MOST_HALVINGS: Final = 0.5
"""What a price halves a factor by at most, as a power of 2: about what the policy raises a small part by."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Bounds of the MTP.

    Attributes:
        least_us: Shortest [us].
        most_us: Longest [us].
        least_rtts: Shortest, in minimum RTTs of the flow; where that is longer than `most_us` it holds.
    """

    least_us: float
    most_us: float
    least_rtts: float

    def clip(self, mtp_us: Floats, rtt_min_us: Floats) -> Floats:
        """Return the lengths within the bounds [us]."""
        least_us = np.maximum(self.least_us, self.least_rtts * rtt_min_us)
        return np.maximum(np.minimum(mtp_us, self.most_us), least_us)


def cases(states: States, alpha_rtts: float, delta_ratio: float) -> NDArray[np.int8]:
    """Return the case of each flow, 1 to 4; see the module."""
    calm = states.queue_rtts <= alpha_rtts
    lossy = states.loss_ratio >= delta_ratio
    drains = states.gradient_rtts < 0
    return np.where(calm, np.where(lossy, 3, np.where(drains, 1, 2)), 4).astype(np.int8)


def next_mtp_us(states: States, case: NDArray[np.int8], alpha_rtts: float) -> Floats:
    """Return how long the next intervals are to be, without bounds [us]."""
    steepness = states.gradient_rtts / alpha_rtts
    longer = np.exp2(1 / (1 + np.exp(np.minimum(steepness, 0.0))))
    shorter = np.exp(-np.maximum(steepness, 0.0))
    at_once = np.exp(-states.queue_rtts / alpha_rtts)
    calm = np.where(case == 1, longer, np.where(case == 2, shorter, 1.0))
    mtp_us: Floats = states.mtp_us * np.where(case == 4, at_once, calm)
    return mtp_us


def priced(states: States, case: NDArray[np.int8], loss_price: float, delta_ratio: float) -> Floats:
    """Return what losses leave of the policy's factors; see the module.

    Args:
        states: Of n flows.
        case: Their cases, shape (n,).
        loss_price: Halvings for all of the path, at a loss of 1.
        delta_ratio: Smoothed losses up to it are free.

    Returns:
        Array of shape (n,), 2^-0.5 to 1; 1 but in case 4.
    """
    halvings = loss_price * states.part_ratio * (states.smoothed_loss_ratio - delta_ratio)
    left: Floats = np.exp2(-np.where(case == 4, halvings.clip(0.0, _MOST_HALVINGS), 0.0))
    return left
