"""Flex-Cubic as the kept results have it: the window keeps growing while spared losses are repaired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ccp_algs.spared_recovery import GROWS
from experiments.events import ParamValue
from experiments.papers.flex_cubic.claims import OWN
from experiments.papers.two_flows import against
from experiments.papers.variants import steered

PARAMS: Final[Mapping[str, ParamValue]] = {"spared_window": GROWS}


def flex(**params: ParamValue) -> dict[str, Any]:
    """Return the fields that give all flows Flex-Cubic with these parameters."""
    return steered(OWN, **PARAMS, **params)


def flex_against(other: str, **params: ParamValue) -> dict[str, Any]:
    """Return the fields for a flow of Flex-Cubic, with these parameters, and one of `other`."""
    return against(OWN, other, **PARAMS, **params)
