"""`ccp algorithms`: the algorithms that can run."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from ccp_algs import params_of, registry
from ccp_algs.api import AnyAlgorithm
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
    """List the shipped algorithms and their parameters, and modules that cannot be imported."""
    known = registry.names()
    for name in names or []:
        if name not in known:
            raise UsageError(
                "algorithm.unknown",
                f"no algorithm is called `{name}`",
                fix=close_names(name, known, "algorithm"),
            )
    found = [_describe(name, registry.get(name)) for name in known if not names or name in names]
    failures = {name: f"{type(error).__name__}: {error}" for name, error in registry.failures().items()}
    if as_json:
        console.print_json({"algorithms": found, "failures": failures})
        return
    for one in found:
        typer.echo(f"{one['name']:<12} {one['doc']}")
        for param in one["params"]:
            typer.echo(f"{'':<12}   {param['name']} = {param['value']}{_unit(param)}  {param['doc']}")
    for name, error in failures.items():
        typer.echo(f"{name:<12} cannot be imported: {error}", err=True)


def _unit(param: dict[str, Any]) -> str:
    return f" {param['unit']}" if param["unit"] else ""


def _describe(name: str, algorithm: AnyAlgorithm) -> dict[str, Any]:
    doc = inspect.getdoc(algorithm) or ""
    return {
        "name": name,
        "doc": doc.splitlines()[0] if doc else "",
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
