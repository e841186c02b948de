"""Grids: a scenario with axes of variation. Every combination of points is a separate scenario.

    base: two-flows.yaml                 # or the scenario itself
    axes:
      links.bottleneck.forward.delay_us: [10000, 25000, 50000]
      flows.ours.algorithm: [cubic, reno]
      queue:                             # a free name: each point sets several fields
        droptail: {links.bottleneck.forward.queue: {kind: drop_tail}}
        codel: {links.bottleneck.forward.queue: {kind: codel}}
    repeats: 3

A field's path uses names: `flows.NAME.params.beta`, `flows.*.algorithm` (all flows),
`links.NAME.forward.rate_bytes_per_s` (any topology, also one given as a shape), `topology.pairs`,
`events.0.at_s`, `duration_s`.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import Meta

from ccplane.base.errors import CcpError, Collector, Several
from ccplane.base.names import close_names
from experiments.errors import ScenarioError
from experiments.netlab.spec import Link, PositiveInt
from experiments.runs import reading
from experiments.runs.shapes import Graph
from experiments.scenario import Scenario

FORMAT: Final = 1
_ALL: Final = "*"


@dataclass(frozen=True)
class Point:
    """One combination of points on the axes.

    Attributes:
        axes: Name of the axis -> its point: a value, or the name of a named point.
        scenario: The resulting scenario.
    """

    axes: dict[str, Any]
    scenario: Scenario


class _File(msgspec.Struct, forbid_unknown_fields=True):
    base: str | dict[str, Any]
    axes: dict[str, list[Any] | dict[str, dict[str, Any]]]
    format: Annotated[int, Meta(ge=1, le=FORMAT)] = FORMAT
    name: str = ""
    repeats: PositiveInt = 1
    own_networks: bool = False


@dataclass(frozen=True)
class Grid:
    """A scenario and the axes along which it varies.

    Attributes:
        base: The scenario.
        axes: Field's path -> its values; or any other name -> name of a point -> values by field's path.
        name: Display name; empty for the base's name.
        repeats: Number of runs of each point, each with another seed.
        directory: Base of relative paths in the axes.
        own_networks: Whether each repeat gets its own network (`experiments.runs.own_network`).
    """

    base: Scenario
    axes: Mapping[str, Sequence[Any] | Mapping[str, Mapping[str, Any]]]
    name: str = ""
    repeats: int = 1
    directory: Path = field(default_factory=Path)
    own_networks: bool = False

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a YAML file; paths in it are relative to its directory.

        Raises:
            ScenarioError: The error in the file, or in its base.
            Several: If there are several.
        """
        path = Path(path)
        raw = reading.parse_yaml(reading.read_text(path), str(path))
        reading.refuse(raw, "topology", "scenario", "ccp experiment run", str(path))
        file = reading.convert(raw, _File, str(path))
        if isinstance(file.base, str):
            base = Scenario.load(path.parent / file.base)
        else:
            base = Scenario.parse(file.base, f"{path}: base", path.parent)
        return cls(base, file.axes, file.name, file.repeats, path.parent, file.own_networks)

    @property
    def title(self) -> str:
        """Display name."""
        return self.name or self.base.name

    def points(self) -> list[Point]:
        """Return all combinations; the last axis varies fastest.

        Raises:
            ScenarioError: The error, if a point is invalid; `where` names the point.
            Several: All errors, if there are several.
        """
        problems = Collector()
        found: list[Point] = []
        reported: set[tuple[str, str, str]] = set()
        for combination in itertools.product(*(_points(name, axis) for name, axis in self.axes.items())):
            axes = {name: shown for name, (shown, _) in zip(self.axes, combination, strict=True)}
            changes = {path: value for _, values in combination for path, value in values.items()}
            try:
                found.append(Point(axes, changed(self.base, changes, self.directory)))
            except CcpError as error:
                at = ", ".join(f"{name}={shown}" for name, shown in axes.items())
                for one in error.errors if isinstance(error, Several) else (error,):
                    if (one.slug, one.message, one.where) not in reported:  # report each error once
                        reported.add((one.slug, one.message, one.where))
                        where = f"{one.where} (at {at})" if one.where else at
                        problems.errors.append(ScenarioError(one.slug, one.message, where, one.why, one.fix))
        problems.finish()
        return found


def _points(
    name: str, axis: Sequence[Any] | Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield the points of an axis: their labels, and the values that they set."""
    if not axis:
        raise ScenarioError("scenario.bad_field", "the axis has no points", f"axes.{name}", fix="give points")
    if isinstance(axis, Mapping):
        yield from axis.items()
    else:
        yield from ((value, {name: value}) for value in axis)


def changed(scenario: Scenario, changes: Mapping[str, Any], directory: Path | None = None) -> Scenario:
    """Return a scenario with some fields changed and validated.

    Args:
        scenario: The scenario.
        changes: Path of a field -> its new value.
        directory: Base of relative paths in the values; None for the current directory.

    Raises:
        ScenarioError: If a field does not exist, or the result is invalid.
        Several: If there are several errors.
    """
    raw = reading.full(scenario)
    links: dict[str, Any] = {}
    for path, value in changes.items():
        if path.partition(".")[0] == "links":
            links[path] = value
        else:
            _set(raw, path.split("."), copy.deepcopy(value), path)
    if links:  # last, because other changes may affect the shape that defines the links
        graph = Graph.of(reading.convert(raw, Scenario).network)
        raw["topology"] = reading.full(graph)
        for path, value in links.items():
            _set(raw["topology"], path.split("."), copy.deepcopy(value), path)
    return Scenario.parse(raw, directory=directory)


def _set(target: Any, steps: Sequence[str], value: Any, path: str) -> None:
    """Set a field of plain data; create the object around it if that is omitted."""
    step, rest = steps[0], steps[1:]
    if isinstance(target, list):
        for one in _chosen(target, step, path):
            if not rest:
                raise ScenarioError(
                    "scenario.bad_field",
                    f"`{path}` is not a single field",
                    path,
                    fix=f"name one of its fields, such as {path}.{next(iter(one), 'name')}",
                )
            _set(one, rest, value, path)
    elif isinstance(target, dict) and not rest:
        target[step] = value
    elif isinstance(target, dict):
        if target.get(step) is None:
            link = step == "backward" and "forward" in target and "a" in target
            target[step] = reading.full(msgspec.convert(target, Link).back) if link else {}
        _set(target[step], rest, value, path)
    else:
        raise ScenarioError(
            "scenario.unknown_name",
            f"`{path}` names a field of something that has no fields",
            path,
            f"{target!r} has no field `{step}`",
            "shorten the path",
        )


def _chosen(elements: Sequence[Any], step: str, path: str) -> Sequence[Any]:
    """Return the elements of a list that a step of a path selects: all, one by number, or one by name."""
    if step == _ALL:
        return elements
    if step.isdecimal() and int(step) < len(elements):
        return [elements[int(step)]]
    named = {one["name"]: one for one in elements if isinstance(one, dict) and "name" in one}
    if step not in named:
        known = [*named] or [str(number) for number in range(len(elements))]
        raise ScenarioError(
            "scenario.unknown_name",
            f"`{path}`: there is no `{step}`",
            path,
            fix=close_names(step, known, "name"),
        )
    return [named[step]]
