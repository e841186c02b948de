"""Other detectors of token buckets, to compare with R-TCP's, on the recorded ACKs of one connection.

`pd` and `pd-by-transfer` (`pd.py`), `bbr-lt` and `mbbr-like` (`long_term.py`), `p-modrl-like` (`p_modrl.py`).
Detectors called "like" have the rules of published programs; their modules say what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from experiments.papers.r_tcp.baselines.acks import Ack, Finding
from experiments.papers.r_tcp.baselines.long_term import bbr_lt, mbbr_like
from experiments.papers.r_tcp.baselines.p_modrl import p_modrl_like
from experiments.papers.r_tcp.baselines.pd import pd, pd_by_transfer

__all__ = ["BASELINES", "Ack", "Finding"]

BASELINES: Final[dict[str, Callable[[Sequence[Ack]], Finding]]] = {
    "pd": pd,
    "pd-by-transfer": pd_by_transfer,
    "bbr-lt": bbr_lt,
    "mbbr-like": mbbr_like,
    "p-modrl-like": p_modrl_like,
}
"""Name -> detector, for the ACKs of a connection from its beginning on, with marked starts of transfers."""
