"""Parameters of running algorithms by name, for `--param`, `ccp set` and the control API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ccp_algs import Param, params_of
from ccp_algs.api import AnyAlgorithm
from ccp_algs.params import checked_params
from ccplane.agent.names import unknown_algorithm
from ccplane.base.errors import Collector, ParamError
from ccplane.base.names import close_names


def parse(
    settings: Sequence[str], option: str = "--param", example: str = "cubic.beta=0.8"
) -> dict[str, str]:
    """Parse `NAME=VALUE` settings; return the text of each value by name.

    Raises:
        ParamError: `param.syntax`, if a setting does not have this form.
        Several: If several settings do not.
    """
    problems = Collector()
    values: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        with problems.check():
            if not equals or not name.strip():
                raise ParamError(
                    "param.syntax",
                    f"cannot parse NAME=VALUE: `{setting}`",
                    where=f"{option} {setting}",
                    fix=f"write NAME=VALUE, such as {option} {example}",
                )
            values[name.strip()] = value.strip()
    problems.finish()
    return values


@dataclass(frozen=True, slots=True)
class Setting:
    """A checked value for one parameter of one algorithm.

    Attributes:
        algorithm: Name of the algorithm.
        parameter: The parameter.
        value: The value, in the parameter's type.
    """

    algorithm: str
    parameter: Param[Any]
    value: Any


def resolve(values: Mapping[str, object], algorithms: Mapping[str, AnyAlgorithm]) -> dict[str, list[Setting]]:
    """Look up parameters by name, and check their values; return the settings by the given names.

    Args:
        values: Values (or their text) by `PARAMETER`, for all algorithms that have it, or by
            `ALGORITHM.PARAMETER`.
        algorithms: Running algorithms by name.

    Raises:
        ParamError: `param.unknown_params`, or the parameter does not accept the value.
        UsageError: `algorithm.unknown`.
        Several: If there are several problems.
    """
    problems = Collector()
    found: dict[str, list[Setting]] = {}
    for name, value in values.items():
        for algorithm, parameter in _owners(name, algorithms, problems):
            with problems.check():
                cls = algorithms[algorithm]
                (checked,) = checked_params(cls, {parameter: value}).values()
                found.setdefault(name, []).append(Setting(algorithm, params_of(cls)[parameter], checked))
    problems.finish()
    return found


def set_all(values: Mapping[str, object], algorithms: Mapping[str, AnyAlgorithm]) -> None:
    """Set parameters for all flows, all or none; arguments and errors as in `resolve`."""
    for settings in resolve(values, algorithms).values():
        for one in settings:
            one.parameter.put(algorithms[one.algorithm], one.value)


def shared(name: str, algorithm: str) -> ParamError:
    """Return the error for a parameter that cannot be set for single flows."""
    return ParamError(
        "param.shared",
        f"`{name}` cannot be set for a single flow of `{algorithm}`",
        why=f"`{algorithm}` is vectorised: one instance controls all its flows",
        fix="set the parameter for all flows",
    )


def _owners(name: str, algorithms: Mapping[str, AnyAlgorithm], problems: Collector) -> list[tuple[str, str]]:
    """Return `owners`, or collect its error."""
    found: list[tuple[str, str]] = []
    with problems.check():
        found = owners(name, algorithms)
    return found


def owners(name: str, algorithms: Mapping[str, AnyAlgorithm]) -> list[tuple[str, str]]:
    """Return the algorithms that have a parameter, each with the parameter's name within the algorithm.

    Raises:
        ParamError: `param.unknown_params`.
        UsageError: `algorithm.unknown`.
    """
    algorithm, dot, parameter = name.partition(".")
    if dot:
        if algorithm not in algorithms:
            raise unknown_algorithm(algorithm, list(algorithms), f"parameter {name}")
        return [(algorithm, parameter)]
    found = [(one, name) for one, cls in algorithms.items() if name in params_of(cls)]
    if not found:
        known = {parameter for cls in algorithms.values() for parameter in params_of(cls)}
        raise ParamError(
            "param.unknown_params",
            f"no running algorithm has a parameter `{name}`",
            where=", ".join(algorithms),
            fix=close_names(name, known, "parameter"),
        )
    return found
