"""Planted defect: BBR without its response to loss; neither a round's losses nor a probe's bound anything."""

from typing import Any

from ccp_algs.bbr3 import Bbr3
from ccp_algs.bbr_bounds import ShortBounds
from ccp_algs.bbr_model import Bbr3Fold


class NoBounds(ShortBounds):
    """Short-term bounds that losses never lower."""

    def lower(self, report: Any, beta: float) -> None:
        """Ignore the losses."""


class Deaf(Bbr3):
    """BBR that only measures."""

    def _begin(self) -> None:
        super()._begin()
        self.short = NoBounds()

    def _registers(self, report: Bbr3Fold | None) -> dict[str, int]:
        return super()._registers(report) | {"loss_permille": 1000}

    def _check_startup_loss(self, report: Bbr3Fold) -> None:
        """Stay in STARTUP."""
