"""Parameters of running algorithms by name: of `--param`, `ccp set` and the control API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ccp_algs import Algorithm, params_of, set_params
from ccp_algs.api import AnyAlgorithm
from ccp_algs.params import checked_params
from ccplane.agent.names import unknown_algorithm
from ccplane.base.errors import Collector, ParamError
from ccplane.base.names import close_names


def parse(
    settings: Sequence[str], option: str = "--param", example: str = "cubic.beta=0.8"
) -> dict[str, str]:
    """Read `NAME=VALUE` settings.

    Args:
        settings: Such as `beta=0.8` or `cubic.beta=0.8`.
        option: Where they stand on the command line.
        example: Of one, for who wrote something else.

    Returns:
        Text of the value by name.

    Raises:
        ParamError: `param.syntax`, if one is not of that form.
        Several: If more are not.
    """
    problems = Collector()
    values: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        with problems.check():
            if not equals or not name.strip():
                raise ParamError(
                    "param.syntax",
                    f"`{setting}` sets nothing",
                    where=f"{option} {setting}",
                    fix=f"write NAME=VALUE, such as {option} {example}",
                )
            values[name.strip()] = value.strip()
    problems.finish()
    return values


def set_all(values: Mapping[str, object], algorithms: Mapping[str, AnyAlgorithm]) -> None:
    """Set parameters for all flows.

    Args:
        values: Value by `PARAMETER` (of every algorithm that has it) or `ALGORITHM.PARAMETER`.
        algorithms: Running algorithms by name.

    Raises:
        ParamError: `param.nobody_has`, or what the parameter says of the value.
        UsageError: `algorithm.unknown`.
        Several: If more than one thing is wrong. What is right is set for algorithms without an error only.
    """
    problems = Collector()
    by_algorithm: dict[str, dict[str, object]] = {}
    for name, value in values.items():
        with problems.check():
            for algorithm, parameter in owners(name, algorithms):
                by_algorithm.setdefault(algorithm, {})[parameter] = value
    problems.finish()
    for algorithm, theirs in by_algorithm.items():
        with problems.check():
            set_params(algorithms[algorithm], theirs)
    problems.finish()


def set_one(name: str, value: object, algorithm: str, instance: Algorithm | None) -> None:
    """Set a parameter for one flow.

    Args:
        name: `PARAMETER` or `ALGORITHM.PARAMETER`.
        value: The value, or text that spells it.
        algorithm: Name of the flow's algorithm.
        instance: The flow's instance; None if all its flows share one.

    Raises:
        ParamError: `param.shared`, `param.nobody_has`, or what the parameter says of the value.
        UsageError: `algorithm.unknown`, if the flow has another algorithm.
    """
    if instance is None:
        raise shared(name, algorithm)
    ((_, parameter),) = owners(name, {algorithm: type(instance)})
    set_params(instance, {parameter: value})


def shared(name: str, algorithm: str) -> ParamError:
    """Return the error for a parameter that cannot be set for single flows."""
    return ParamError(
        "param.shared",
        f"`{name}` cannot be set for one flow of `{algorithm}`",
        why="it is vectorised: one instance steers all its flows",
        fix="set it for all flows",
    )


def check(name: str, value: object, algorithms: Mapping[str, AnyAlgorithm]) -> list[tuple[str, str]]:
    """Check a setting without making it.

    Args:
        name: `PARAMETER` or `ALGORITHM.PARAMETER`.
        value: The value, or text that spells it.
        algorithms: Running algorithms by name.

    Returns:
        The algorithms that the name means, each with the name within the algorithm.

    Raises:
        ParamError: `param.nobody_has`, or what the parameter says of the value.
        UsageError: `algorithm.unknown`.
    """
    found = owners(name, algorithms)
    for algorithm, parameter in found:
        checked_params(algorithms[algorithm], {parameter: value})
    return found


def owners(name: str, algorithms: Mapping[str, AnyAlgorithm]) -> list[tuple[str, str]]:
    """Return the algorithms that a parameter's name means, each with the name within the algorithm.

    Raises:
        ParamError: `param.nobody_has`.
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
            "param.nobody_has",
            f"no running algorithm has a parameter `{name}`",
            where=", ".join(algorithms),
            fix=close_names(name, known, "parameter"),
        )
    return found
