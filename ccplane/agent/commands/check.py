"""`ccp check`: whether an algorithm can run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ccp_algs.api import AnyAlgorithm
from ccplane.agent import console
from ccplane.agent.algorithms import check_contract, compile_programs, find, name_of
from ccplane.base.errors import CcpError, Collector, LoadError, VerifierError
from ccplane.base.options import AsJson, examples
from ccplane.datapath import ebpf

app = typer.Typer(add_completion=False)

_VERDICT = {True: ", accepted by the verifier", False: ", refused by the verifier", None: ""}


@app.command(epilog=examples("ccp check mine.py", "ccp check cubic --json"))
def check(
    ctx: typer.Context,
    algorithm: Annotated[
        str, typer.Argument(metavar="ALGORITHM", help="Name, FILE.py, FILE.py:Class or module:Class.")
    ],
    as_json: AsJson = False,
) -> None:
    """Check an algorithm: import it, compile its fold programs, verify them in the kernel, test its contract.

    Exits with 1 if there is an error. Nothing is attached to any flow.
    """
    found: dict[str, Any] = {"algorithm": algorithm, "name": None, "programs": [], "notes": []}
    problems = Collector()
    with problems.check():
        cls = find(algorithm)
        found["name"] = name_of(cls, algorithm)
        with problems.check():
            _check_programs(cls, found, problems)
        with problems.check():
            check_contract(cls)
    errors = [single for error in problems.errors for single in console.problems(error)]
    if as_json:
        console.print_json({**found, "ok": not errors, "errors": [error.as_dict() for error in errors]})
    else:
        _show(found, errors, debug=bool(ctx.find_root().params.get("debug")))
    if errors:
        raise typer.Exit(console.FAILED)


def _check_programs(cls: AnyAlgorithm, found: dict[str, Any], problems: Collector) -> None:
    for name, program in compile_programs(cls, ebpf.compile_program).items():
        verified: bool | None = None
        try:
            ebpf.verify(program)
            verified = True
        except VerifierError as error:
            verified = False
            problems.errors.append(error)
        except LoadError as error:
            note = f"not verified by the kernel: {error.why or error.message}"
            if note not in found["notes"]:
                found["notes"].append(note)
        found["programs"].append(
            {
                "name": name,
                "n_instructions": program.n_instructions,
                "report_fields": program.report_fields,
                "control_registers": program.control_registers,
                "primitives": program.primitives,
                "verified": verified,
            }
        )


def _show(found: dict[str, Any], errors: list[CcpError], *, debug: bool) -> None:
    for program in found["programs"]:
        typer.echo(
            f"program {program['name']}: {program['n_instructions']} instructions"
            f"{_VERDICT[program['verified']]}\n"
            f"  reports  {', '.join(program['report_fields']) or 'nothing'}\n"
            f"  controls {', '.join(program['control_registers']) or 'none'}\n"
            f"  reads    {', '.join(program['primitives']) or 'nothing'}"
        )
    for note in found["notes"]:
        typer.echo(f"note: {note}")
    for error in errors:
        console.show_error(error, debug=debug)
    typer.echo(f"{found['algorithm']}: " + (f"{len(errors)} error(s)" if errors else "OK"))
