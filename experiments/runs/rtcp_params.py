"""What scenarios say of R-TCP in the kernel: the names and parameters of `rtcp/cubic` and `rtcp/bbr`.

All flows of a run have the same parameters: the kernel has these congestion controls once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ccplane.agent.features.rtcp.settings import options_of
from ccplane.base.errors import Collector, ParamError
from experiments.errors import ScenarioError
from experiments.events import ParamValue

RTCP: Final = "rtcp/"
"""What they begin with, in flows."""
NAMES: Final = (f"{RTCP}cubic", f"{RTCP}bbr")
RECORD: Final = "record"
"""Parameter besides the options: whether the result keeps the ACKs, as the detector saw them."""


def congestion_of(algorithm: str) -> str:
    """Return the congestion-control name of sockets for one of `NAMES`."""
    return algorithm.replace("/", "_")


def check_params(algorithm: str, params: Mapping[str, Any], at: str) -> None:
    """See whether parameters can be.

    Args:
        algorithm: As the flow names it.
        params: The flow's.
        at: Where they are, for errors.

    Raises:
        ScenarioError: `scenario.bad_param`.
        Several: If more is wrong.
    """
    problems = Collector()
    with problems.check():
        options_of(settings_of(params))
    if not isinstance(params.get(RECORD, False), bool):
        problems.errors.append(ParamError("param.wrong_type", f"{RECORD} is true or false", RECORD))
    problems.errors = [
        ScenarioError(
            "scenario.bad_param", f"`{algorithm}`: {one.message}", f"{at}.{one.where}", one.why, one.fix
        )
        for one in problems.errors
    ]
    problems.finish()


def settings_of(params: Mapping[str, ParamValue]) -> dict[str, ParamValue]:
    """Return those of a flow's parameters that are options of the detector and the limiter."""
    return {name: value for name, value in params.items() if name != RECORD}
