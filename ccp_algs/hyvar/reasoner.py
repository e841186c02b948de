"""Hyvar's state reasoner: the next interval's length, who sets the window, and the price of losses.

With q = RTT / RTT_min - 1, its gradient g, and loss, the share of lost packets:

    case 1   q <= alpha, loss < delta, g < 0     MTP <- MTP * 2^S(-g / alpha)     queue drains: decide later
    case 2   q <= alpha, loss < delta, g >= 0    MTP <- MTP * e^(-g / alpha)      queue grows: decide sooner
    case 3   q <= alpha, loss >= delta           MTP stays; only the learned policy sets the window
    case 4   q > alpha                           MTP <- MTP * e^(-q / alpha)      long queue: decide soon

Source: the slides "Hybrid Congestion Control with Variable Monitoring Time Period" (Qiu et al.), Design.
The slides leave some points open; ccplane's choices are:

* S(x) is not defined. Here S is the logistic function, S(x) = 1 / (1 + e^-x), with x = -g / alpha: the MTP
  grows by a factor of 1.41 if the queue hardly drains, and of up to 2 if it drains fast.
* Case 3 reads `Loss < delta`, which would repeat cases 1 and 2 and leave no case for losses without a queue.
  The condition is probably a misprint of `Loss >= delta`, because losses that no queue explains are the ones
  to which CUBIC responds wrongly, and therefore the reason to switch to the policy.
* Case 4 ignores losses. The slides switch to the policy in case 3 only, so in case 4 both CUBIC and the
  policy change the window, and CUBIC answers losses, which is also the default here. With `case4_alone` only
  the policy sets the window at the shortest MTP, and handles losses. docs/papers/hyvar.md compares the two.
* In case 4 losses have a price, which the slides do not have. If several flows keep a queue full, each has a
  small share of the path, and the policy keeps raising the window of such a flow; eight such flows
  retransmitted 14 % of their data. The factor is divided by 2^(price * part * (loss - delta)), at most by
  sqrt(2), where part is the flow's throughput divided by the path's, and loss is smoothed. As in Kelly's
  scheme, flows with a larger share pay more, which drives shares towards equality; the bound keeps every flow
  in competition. Without losses, and with `loss_price` = 0, the price has no effect. Source: F. Kelly, A.
  Maulloo and D. Tan, "Rate Control for Communication Networks", JORS 49, 1998, its primal algorithm.
  Deviations: a factor instead of a rate, and the bound.
* alpha, delta and the bounds of the MTP are not given: they are parameters, see `algorithms.py`.
* The normalisation of the RTT is not defined: see `collector.py`.
* "MTP_n <- MTP_n - 1" in case 4 is read as MTP_(n-1), as in the other cases.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ccp_algs.hyvar.collector import Floats, States

_MAX_HALVINGS: Final = 0.5
"""Maximum price, as an exponent of 2: about the policy's increase for a small share."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Bounds of the MTP.

    Attributes:
        min_us: Shortest [us].
        max_us: Longest [us].
        min_rtts: Shortest, in minimum RTTs of the flow; it takes precedence over `max_us`.
    """

    min_us: float
    max_us: float
    min_rtts: float

    def clip(self, mtp_us: Floats, rtt_min_us: Floats) -> Floats:
        """Return the lengths within the bounds [us]."""
        min_us = np.maximum(self.min_us, self.min_rtts * rtt_min_us)
        return np.maximum(np.minimum(mtp_us, self.max_us), min_us)


def cases(states: States, alpha_rtts: float, delta_ratio: float) -> NDArray[np.int8]:
    """Return the case of each flow, 1 to 4; see the module."""
    calm = states.queue_rtts <= alpha_rtts
    lossy = states.loss_ratio >= delta_ratio
    drains = states.gradient_rtts < 0
    return np.where(calm, np.where(lossy, 3, np.where(drains, 1, 2)), 4).astype(np.int8)


def next_mtp_us(states: States, case: NDArray[np.int8], alpha_rtts: float) -> Floats:
    """Return the lengths of the next intervals, before the bounds of the MTP apply [us]."""
    steepness = states.gradient_rtts / alpha_rtts
    longer = np.exp2(1 / (1 + np.exp(np.minimum(steepness, 0.0))))
    shorter = np.exp(-np.maximum(steepness, 0.0))
    at_once = np.exp(-states.queue_rtts / alpha_rtts)
    calm = np.where(case == 1, longer, np.where(case == 2, shorter, 1.0))
    mtp_us: Floats = states.mtp_us * np.where(case == 4, at_once, calm)
    return mtp_us


def priced(states: States, case: NDArray[np.int8], loss_price: float, delta_ratio: float) -> Floats:
    """Return the numbers by which losses multiply the policy's factors; see the module.

    Args:
        states: States of n flows.
        case: Their cases, shape (n,).
        loss_price: Halvings for a flow with the whole path, at a loss of 1.
        delta_ratio: Smoothed losses up to this ratio are free.

    Returns:
        Array of shape (n,), from 2^-0.5 to 1; 1 outside case 4.
    """
    halvings = loss_price * states.part_ratio * (states.smoothed_loss_ratio - delta_ratio)
    left: Floats = np.exp2(-np.where(case == 4, halvings.clip(0.0, _MAX_HALVINGS), 0.0))
    return left
