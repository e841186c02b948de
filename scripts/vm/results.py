"""Test results of each kernel, kept in docs/kernels.json and shown in docs/kernels.md."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any, Final

from experiments import records
from experiments.runs.metadata import git_revision
from scripts.vm.machine import Run
from scripts.vm.places import ROOT
from scripts.vm.problem import VmError

KEPT: Final = ROOT / "docs/kernels.json"

Result = dict[str, Any]
"""Kernel, passed, failed (names), skipped (count by reason), seconds, revision, date."""


def read_report(report: Path) -> Result | None:
    """Return passed, failed and skipped tests of pytest's report; None without a report."""
    if not report.exists():
        return None
    passed, failed, skipped = 0, [], Counter[str]()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif (reason := case.find("skipped")) is not None:
            skipped[str(reason.get("message"))] += 1
        else:
            passed += 1
    return {"passed": passed, "failed": sorted(set(failed)), "skipped": dict(sorted(skipped.items()))}


def revision() -> str:
    """Return the tested revision, with `+` if it has changes; call it before `keep`, which changes files."""
    sources = git_revision()
    return "" if sources is None else sources["commit"][:7] + "+" * sources["dirty"]


def keep(name: str, version: str, report: Path, wall_s: float, tested: str, kept: Path = KEPT) -> None:
    """Keep the test results of a kernel, replacing its previous ones.

    Raises:
        VmError: Without a report.
    """
    found = read_report(report)
    if found is None:
        raise VmError(f"no results of {name}", f"{report} does not exist", "see console.log in its folder")
    results: dict[str, Result] = json.loads(kept.read_text()) if kept.exists() else {}
    # The same reason on different kernels is one row of the table.
    skipped = {reason.replace(version, "VERSION"): count for reason, count in found["skipped"].items()}
    results[name] = {
        "kernel": version,
        **found,
        "skipped": skipped,
        "seconds": round(wall_s),
        "revision": tested,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    order = sorted(results, key=lambda one: [int(part) for part in one.split(".")])
    kept.write_text(records.dumped({one: results[one] for one in order}))


def keep_run(run: Run, result: str, command: str, tested: str, kept: Path) -> None:
    """Keep the result of a successful command in a machine.

    Args:
        run: The command's end.
        result: Name of the JSON file that it wrote.
        command: The command line that did all this.
        tested: Revision, as of `revision`.
        kept: File for the result.
    """
    found: Result = {
        "command": command,
        "kernel": run.kernel.version,
        "revision": tested,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        **json.loads((run.out / result).read_text()),
    }
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(records.dumped(found))


def table(results: dict[str, Result]) -> str:
    """Return results as Markdown."""
    lines = ["| Linux | passed | failed | skipped | minutes | revision | date |", "| --- " * 7 + "|"]
    for one in results.values():
        counts = one["passed"], len(one["failed"]), sum(one["skipped"].values())
        cells = [one["kernel"], *counts, f"{one['seconds'] / 60:.1f}", one["revision"], one["date"]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    for name, one in results.items():
        if one["failed"]:
            lines += [f"\nFailed on {name}:\n", *(f"- `{test}`" for test in one["failed"])]
    return "\n".join(lines)
