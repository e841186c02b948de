"""The congestion controls that a command line names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ccplane.agent.algorithms import find, name_of
from ccplane.agent.description import Description, plan
from ccplane.base.errors import UsageError
from ccplane.base.names import close_names
from experiments.evaluate.errors import EvaluateError
from experiments.plots import label
from experiments.runs.check import KERNEL, SIMULATED, is_own
from experiments.runs.files import absolute

CUBIC: Final = "kernel/cubic"
"""The standard congestion control next to which others are evaluated (RFC 9438)."""
RENO: Final = "kernel/reno"
"""What CUBIC itself is compared with (RFC 5681)."""
_CCPLANES: Final = "ccp"


@dataclass(frozen=True)
class Controller:
    """A congestion control.

    Attributes:
        given: Its name on the command line.
        algorithm: Its name in scenarios; the path of a file is absolute.
        label: Its name in tables and figures.
    """

    given: str
    algorithm: str
    label: str

    @property
    def simulated(self) -> bool:
        """Whether the simulator has it."""
        return not self.algorithm.startswith(KERNEL) or self.algorithm in SIMULATED


def resolve(name: str, *, simulate: bool = False) -> Controller:
    """Return the congestion control of a name.

    Args:
        name: `FILE.py`, `FILE.py:Class`, `module:Class`, one of ccplane's, or `kernel/NAME`.
        simulate: Whether the simulator has to have it.

    Raises:
        EvaluateError: `evaluate.no_controller` or `evaluate.not_simulated`.
        UsageError: If ccplane has no such algorithm, its file cannot be imported, or its callbacks fail.
        LangError: If its fold program does not compile.
    """
    if name.startswith(KERNEL):
        return _of_kernel(name, simulate)
    if not is_own(name):
        raise EvaluateError(
            "evaluate.no_controller",
            f"`{name}` cannot be evaluated",
            name,
            "evaluations run TCP connections of ccplane's algorithms and of the kernel's",
            "name a file, one of `ccp algorithms`, or kernel/NAME",
        )
    algorithm = absolute(name)
    try:
        found = find(algorithm)
    except UsageError as error:
        is_file = name.partition(":")[0].endswith(".py")
        hint = "" if is_file else f"\nfor the kernel's algorithm, write {KERNEL}{name}"
        raise UsageError(error.slug, error.message, error.where, error.why, error.fix + hint) from error
    plan(Description([algorithm]))  # a mistake is reported once, not by every run
    return Controller(name, algorithm, label(name_of(found, algorithm)))


def _of_kernel(name: str, simulate: bool) -> Controller:
    own = name.removeprefix(KERNEL)
    if not own or own.partition(".")[0] == _CCPLANES:
        raise EvaluateError(
            "evaluate.no_controller",
            f"`{name}` is not a congestion control of the kernel",
            name,
            fix="write kernel/cubic for the kernel's algorithm, and cubic for ccplane's",
        )
    found = Controller(name, name, label(name))
    if simulate and not found.simulated:
        raise EvaluateError(
            "evaluate.not_simulated",
            f"the simulator does not have `{name}`",
            name,
            f"of the kernel's algorithms it has {', '.join(SIMULATED)}",
            f"{close_names(name, SIMULATED, 'name')}\nor use real sockets: as root, without --quick",
        )
    return found


def resolve_all(names: Sequence[str], *, simulate: bool = False) -> tuple[Controller, ...]:
    """Return the congestion controls of several names, which must be different.

    Raises:
        EvaluateError: As `resolve`; also `evaluate.twice`.
    """
    found: dict[str, Controller] = {}
    for name in names:
        one = resolve(name, simulate=simulate)
        if one.algorithm in found:
            raise EvaluateError(
                "evaluate.twice",
                f"`{name}` is named twice",
                name,
                f"it is the same congestion control as `{found[one.algorithm].given}`",
                "leave one of them out",
            )
        found[one.algorithm] = one
    return tuple(found.values())


def references(subjects: Sequence[Controller], against: Sequence[Controller]) -> tuple[Controller, ...]:
    """Return what subjects are compared with: CUBIC, or Reno for CUBIC alone, then those of `--against`."""
    own = {one.algorithm for one in subjects}
    usual = RENO if own == {CUBIC} else CUBIC
    return (resolve(usual), *(one for one in against if one.algorithm not in own | {usual}))
