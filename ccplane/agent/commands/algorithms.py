"""`ccp algorithms`: what can be run."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from ccp_algs import params_of, registry
from ccp_algs.api import AnyAlgorithm
from ccplane.agent import console


def algorithms(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the algorithms and their parameters, and modules that do not import."""
    found = [_describe(name, registry.get(name)) for name in registry.names()]
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
