"""`ccp algorithms`: the algorithms that can run."""

from __future__ import annotations

import shutil
import textwrap
from typing import Annotated, Any

import typer

from ccp_algs import params_of, registry
from ccp_algs.api import AnyAlgorithm
from ccp_algs.cards import Card, card_of
from ccp_algs.params import Param
from ccplane.agent import console
from ccplane.base.errors import UsageError
from ccplane.base.names import close_names
from ccplane.base.options import AsJson, examples

app = typer.Typer(add_completion=False)


@app.command(epilog=examples("ccp algorithms", "ccp algorithms cubic"))
def algorithms(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="ALGORITHM", help="Algorithms by name.", show_default="all"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the shipped algorithms, or print when to use the named ones, and their parameters.

    The list also has the modules that cannot be imported.
    """
    known = registry.names()
    for name in names or []:
        if name not in known:
            raise UsageError(
                "algorithm.unknown",
                f"no algorithm is called `{name}`",
                fix=close_names(name, known, "algorithm"),
            )
    found = {name: registry.get(name) for name in known if not names or name in names}
    failures = {name: f"{type(error).__name__}: {error}" for name, error in registry.failures().items()}
    if as_json:
        described = [_describe(name, algorithm) for name, algorithm in found.items()]
        console.print_json({"algorithms": described, "failures": failures})
        return
    if names:
        typer.echo("\n\n".join(_card(name, algorithm) for name, algorithm in found.items()))
        return
    for name, algorithm in found.items():
        typer.echo(f"{name:<12} {card_of(algorithm).overview}")
    for name, error in failures.items():
        typer.echo(f"{name:<12} cannot be imported: {error}", err=True)


def _card(name: str, algorithm: AnyAlgorithm) -> str:
    """Return an algorithm's card, and a line for each parameter."""
    card, width = card_of(algorithm), min(shutil.get_terminal_size().columns, 110)
    parts = [f"{name}: {card.overview}", *_entries(card)]
    lines = [
        line
        for part in parts
        for line in textwrap.wrap(part, width, subsequent_indent="  ", break_on_hyphens=False)
    ]
    rows = [
        (f"{key} = {_text(getattr(algorithm, key))}", _bounds(param), param.doc)
        for key, param in params_of(algorithm).items()
    ]
    first, second = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    lines += ["", *(f"  {value:<{first}}  {bounds:<{second}}  {doc}" for value, bounds, doc in rows)]
    return "\n".join(lines)


def _entries(card: Card) -> list[str]:
    heads = {
        "Use it ": card.use,
        "Do not use it ": card.avoid,
        "Evidence: ": card.evidence,
        "More: ": card.more,
    }
    return [head + text for head, text in heads.items() if text]


def _text(value: Any) -> str:
    """Return a value as the command line takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _bounds(param: Param[Any]) -> str:
    """Return the values that a parameter may have, with their unit."""
    choices = (True, False) if isinstance(param.default, bool) else param.choices
    bounds = " to ".join(_text(bound) for bound in (param.min, param.max) if bound is not None)
    return ", ".join(map(_text, choices)) or f"{bounds} {param.unit}".strip()


def _describe(name: str, algorithm: AnyAlgorithm) -> dict[str, Any]:
    card = card_of(algorithm)
    return {
        "name": name,
        "doc": card.overview,
        "use": card.use,
        "avoid": card.avoid,
        "evidence": card.evidence,
        "page": card.more,
        "class": f"{algorithm.__module__}:{algorithm.__qualname__}",
        "needs_ecn": algorithm.needs_ecn,
        "params": [
            {
                "name": key,
                "value": getattr(algorithm, key),
                "default": param.default,
                "min": param.min,
                "max": param.max,
                "choices": list(param.choices),
                "unit": param.unit,
                "doc": param.doc,
            }
            for key, param in params_of(algorithm).items()
        ],
    }
