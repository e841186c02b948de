"""Programs that benchmarks measure and a checkout builds: examples of crates in `native`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from experiments.bench.builds import ROOT
from experiments.bench.errors import BenchError

FOLDER: Final = ROOT / "native/target/release/examples"
"""Where a checkout builds them."""


def build(crate: str, example: str) -> str:
    """Return the command that builds one, in a checkout."""
    return f"scripts/cargo.sh build --release --package {crate} --example {example}"


def need(program: Path, crate: str, example: str, option: str) -> None:
    """See that an example is there.

    Args:
        program: Its program.
        crate: Which crate has it.
        example: What it is called there.
        option: Of the command, for another program.

    Raises:
        BenchError: `bench.no_example`.
    """
    if os.access(program, os.X_OK):
        return
    raise BenchError(
        "bench.no_example",
        f"there is no example of {crate}",
        str(program),
        "`make build` does not build it",
        f"{build(crate, example)}, in a checkout of ccplane; or name the program: {option} PROGRAM",
    )
