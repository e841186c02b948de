"""The command line of both demos: options, a table of findings, an exit status."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from ccplane.agent.entry import INTERRUPTED
from ccplane.base.errors import CcpError
from experiments.mininet_wifi.chain import Chain
from experiments.mininet_wifi.demo import record
from experiments.mininet_wifi.findings import Finding, findings
from experiments.mininet_wifi.recorded import read

FINDINGS: Final = "findings.json"
"""File with the findings, in the folder of a recording."""


def main(module: str, about: str, build: Callable[[], contextlib.AbstractContextManager[Chain]]) -> int:
    """Run the demo on a chain as the command line asks; return the exit status."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=about,
        epilog="Needs root. Exit status 1: a finding does not hold; 2: the demo could not run.",
    )
    parser.add_argument(
        "--loss",
        type=float,
        default=0.05,
        metavar="RATIO",
        help="Loss ratio of the air after ap2 [default: 0.05]",
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=25,
        metavar="S",
        help="Duration of each of the two phases [default: 25]",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="Keep the capture, the agent's records and the findings here",
    )
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with build() as chain:
                record(chain, folder, loss_ratio=options.loss, phase_s=options.seconds)
            found = findings(read(folder, options.loss))
        except CcpError as error:
            print(error, file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            return INTERRUPTED
        write_findings(folder, found)
    Console(highlight=False).print(table(found))
    return 0 if all(one.holds for one in found) else 1


def write_findings(folder: Path, found: list[Finding]) -> None:
    """Write findings to a folder."""
    (folder / FINDINGS).write_text(json.dumps([asdict(one) for one in found], indent=1))


def read_findings(folder: Path) -> list[Finding]:
    """Read the findings that `write_findings` wrote."""
    return [Finding(**one) for one in json.loads((folder / FINDINGS).read_text())]


def table(found: list[Finding]) -> Table:
    """Return findings as a table."""
    shown = Table("", "finding", "seen")
    for one in found:
        shown.add_row("yes" if one.holds else "NO", one.what, one.detail)
    return shown
