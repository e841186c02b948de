"""Examples of crates in `native` as what benchmarks measure."""

from __future__ import annotations

from pathlib import Path

from experiments.bench.errors import BenchError
from experiments.examples import build, is_built


def need(program: Path, crate: str, example: str, option: str) -> None:
    """See that an example is there.

    Args:
        program: Its program.
        crate: Which crate has it.
        example: What it is called there.
        option: Of the command, for another program; empty, if it has none.

    Raises:
        BenchError: `bench.no_example`.
    """
    if is_built(program):
        return
    other = f"; or name the program: {option} PROGRAM" if option else ""
    raise BenchError(
        "bench.no_example",
        f"there is no example of {crate}",
        str(program),
        "`make build` does not build it",
        f"{build(crate, example)}, in a checkout of ccplane{other}",
    )
