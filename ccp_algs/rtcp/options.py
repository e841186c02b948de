"""Parameters of the detector, with the defaults of the paper's Table 2 where it has them."""

from __future__ import annotations

import dataclasses
import math

from ccp_algs.errors import ParamError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Parameters of the detector; Greek letters are the paper's.

    Attributes:
        loss_window_min_rtts: How long losses are counted, alpha [min-RTTs].
        loss_ratio: Share of lost packets above which estimation begins, beta.
        n_candidates: Bucket sizes that are weighed against each other, omega.
        reduction_ratio: Rate limit over mean throughput before the losses, below which the fall is abrupt,
            theta.
        convergence_min_rtts: How long the estimate has to stay, epsilon [min-RTTs].
        tolerance_ratio: How far the rate may rise meanwhile and still count as the same. The paper has no
            tolerance; its authors' code has one by the coarse units it computes in.
        excess_buckets: A limit is gone if a bucket of so many times the estimated size could not have let
            through what was delivered. Ours.
        excess_buckets_anew: The same for a transfer that has not been found limited itself. Ours.
        excess_rates: That bucket is refilled at so many times the estimated rate at least. Ours.

    Raises:
        ParamError: `param.out_of_range`.
    """

    loss_window_min_rtts: float = 7.0
    loss_ratio: float = 0.2
    n_candidates: int = 9
    reduction_ratio: float = 0.6
    convergence_min_rtts: float = 10.0
    tolerance_ratio: float = 0.005
    excess_buckets: float = 2.0
    excess_buckets_anew: float = 5.0
    excess_rates: float = 2.0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        self._within("loss_window_min_rtts", 0)
        self._within("loss_ratio", 0, 1)
        self._within("n_candidates", 3)
        self._within("reduction_ratio", 0, 1)
        self._within("convergence_min_rtts", 0)
        self._within("tolerance_ratio", 0)
        self._within("excess_buckets", 1)
        self._within("excess_buckets_anew", 1)
        self._within("excess_rates", 1)

    def _within(self, name: str, least: float, most: float = math.inf) -> None:
        value = getattr(self, name)
        if not (least <= value <= most and math.isfinite(value)):
            bound = f"at least {least:g}" + (f" and at most {most:g}" if most < math.inf else "")
            raise ParamError("param.out_of_range", f"{name} cannot be {value}", name, fix=f"give {bound}")
