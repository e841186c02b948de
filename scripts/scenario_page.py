"""Write the reference of scenarios and results from their classes and tables (`make commands`)."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from experiments import events, regimes, scenario
from experiments.learning.domain import Domain
from experiments.netlab import spec
from experiments.runs import columns, shapes, tables
from experiments.traffic import spec as traffic

PAGE: Final = Path(__file__).parents[1] / "docs/scenarios.md"

FIELDS: Final[dict[str, tuple[Any, ...]]] = {
    "A scenario": (scenario.Scenario,),
    "A flow": (scenario.FlowSpec,),
    "Traffic": get_args(traffic.Traffic),
    "Events": get_args(events.Event),
    "The topology": (
        *get_args(shapes.Network),
        spec.Link,
        spec.Direction,
        spec.Buffer,
        *get_args(spec.Queue),
        *get_args(spec.Loss),
        spec.TokenBucket,
        spec.Reorder,
        spec.Tunnel,
        spec.Int,
        spec.IntNode,
        spec.Radio,
        spec.Misbehaving,
    ),
    "Receivers and switches": (regimes.ReceiverAgent, regimes.SocketSwitch),
    "Paths of a training": (Domain,),
}
"""Heading -> classes of YAML."""

_WIDTH: Final = 84
"""Characters of a line of code that the site shows without scrolling."""


def written() -> str:
    """Return the page."""
    parts = [
        "# Scenarios and results\n",
        "<!-- Written by `make commands` from the classes and tables of `experiments`. -->\n",
        "The fields of [scenarios](experiments.md) in YAML, with their defaults, and the columns of results. "
        "Names carry their units; sizes are those of IP packets; paths of files are relative to the YAML "
        "file.\n",
    ]
    for heading, kinds in FIELDS.items():
        parts.append(f"## {heading}\n")
        for kind in kinds:
            parts.append(block(title(kind), summary(kind), list(fields(kind))))
    parts += [
        "## Tables of a result\n",
        "`result.table(NAME)` reads a table as a pandas data frame. Counters count from the start of the "
        "flow or link; unknown values are null. The kernel samples a socket when a segment arrives after the "
        "interval has passed, so an idle socket gives no rows.\n",
    ]
    for name, types in tables.COLUMNS.items():
        parts.append(block(name, columns.TABLES[name], list(column_lines(name, list(types)))))
    return "\n".join(parts)


def block(name: str, about: str, lines: list[str]) -> str:
    """Return a block of code: what something is, and below it its fields or columns."""
    heading = textwrap.wrap(f"# {name}: {about}", _WIDTH, subsequent_indent="# ")
    return "```text\n" + "\n".join([*heading, *lines]) + "\n```\n"


def title(kind: Any) -> str:
    """Return `kind: TAG` as it is written, or the name of a class that has no tag."""
    tag = kind.__struct_config__.tag
    return f"{kind.__struct_config__.tag_field}: {tag}" if tag else kind.__name__


def summary(kind: Any) -> str:
    """Return the docstring of a class up to its attributes, as one paragraph."""
    return " ".join(inspect.cleandoc(kind.__doc__).partition("Attributes:")[0].split())


def fields(kind: Any) -> Iterator[str]:
    """Yield one line per field, and further ones for long meanings."""
    meanings: dict[str, str] = {}
    for base in kind.__mro__[-2::-1]:
        text = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        found = re.findall(r"^    (\w+): (.*?)(?=^    \w+:|\Z|^\S)", text, re.MULTILINE | re.DOTALL)
        meanings |= {name: " ".join(meaning.split()) for name, meaning in found}
    known = [one for one in msgspec.structs.fields(kind) if one.name in meanings]
    yield from aligned([(one.encode_name, meanings[one.name] + default(one)) for one in known])


def default(field: msgspec.structs.FieldInfo) -> str:
    """Return a field's default as text: nothing if it has none, or an empty one."""
    if field.required:
        return " Required."
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    plain = msgspec.to_builtins(value)
    return "" if plain in (None, {}, (), [], "") else f" Default: {msgspec.json.encode(plain).decode()}."


def column_lines(table: str, names: list[str]) -> Iterator[str]:
    """Yield names of columns: with a meaning one per line, the others together at the end."""
    found = {name: columns.MEANINGS.get(f"{table}.{name}", columns.MEANINGS.get(name, "")) for name in names}
    yield from aligned([(name, meaning) for name, meaning in found.items() if meaning])
    yield from textwrap.wrap(", ".join(name for name, meaning in found.items() if not meaning), _WIDTH)


def aligned(rows: list[tuple[str, str]]) -> Iterator[str]:
    """Yield rows of two columns, the second one wrapped."""
    left = max((len(name) for name, _ in rows), default=0) + 2
    for name, meaning in rows:
        first, *rest = textwrap.wrap(meaning, _WIDTH - left) or [""]
        yield f"{name:<{left}}{first}".rstrip()
        yield from (" " * left + line for line in rest)
