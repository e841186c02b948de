"""`make quick`: the tests of changed files.

Changed files are those that differ from a revision: the last commit, or the one before it if nothing differs.
A Python module selects the unit tests that import it or are named after it; without any, those of the modules
that import it. A crate selects its own tests, a document the tests of documents. `make test-unit` also runs
tests that use a module indirectly.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("broker", "ccp_algs", "ccplane", "experiments", "telemetry")
UNIT = Path("tests/unit")
KERNEL_CRATES = {"ccp-bpf", "ccp-difftest", "ccp-node", "ccp-rtcp", "ccp-switch", "ccp-trace", "ccp-native"}
"""Crates whose tests need root or a build of the extension: `make test-rust` runs them."""


def main() -> int:
    """Run the tests of changed files; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.quick", description=__doc__)
    parser.add_argument("--since", metavar="REV", help="revision to compare with")
    since = parser.parse_args().since or ("HEAD" if changed("HEAD") else "HEAD~1")
    paths = changed(since)
    print(f"quick: {len(paths)} files changed since {since}")
    tests, crates = tests_of(paths), crates_of(paths)
    status = 0
    if tests:
        workers = "0" if len(tests) < 4 else "auto"
        pytest = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", "-n", workers]
        status |= run(*pytest, *map(str, tests))
    for crate in crates:
        status |= subprocess.run(
            ["scripts/cargo.sh", "test", "--release", "--package", crate], cwd=ROOT
        ).returncode
    if not tests and not crates:
        print("quick: the changed files have no tests")
    return status


def changed(since: str) -> list[Path]:
    """Return the files that differ from a revision, including untracked files."""
    differ = ["git", "--no-optional-locks", "diff", "--name-only", "--diff-filter=d", since]
    unknown = ["git", "ls-files", "--others", "--exclude-standard"]
    found: set[str] = set()
    for command in (differ, unknown):
        reported = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        found.update(reported.stdout.splitlines())
    return sorted(map(Path, found))


def tests_of(paths: Iterable[Path]) -> list[Path]:
    """Return the files of unit tests of changed files."""
    python = [path for path in paths if path.suffix in (".py", ".pyi")]
    found = {path for path in python if path.is_relative_to(UNIT) and path.name.startswith("test_")}
    all_tests = {path.relative_to(ROOT): imported_by(path) for path in (ROOT / UNIT).rglob("test_*.py")}
    for path in python:
        if path.parts[0] in (*PACKAGES, "tests"):
            found |= users(module_of(path), all_tests)
    if any(path.suffix in (".md", ".py", ".rs", ".c", ".h") for path in paths):
        found.add(UNIT / "test_words.py")
    if any(path.suffix in (".md", ".ipynb") for path in paths):
        found.add(UNIT / "test_docs.py")
    if any(path.parts[0] in ("scripts", "Makefile", "pyproject.toml") for path in paths):
        found |= {UNIT / "test_repo.py", UNIT / "test_setup.py"}
    return sorted(path for path in found if (ROOT / path).exists())


def users(module: str, tests: Mapping[Path, set[str]]) -> set[Path]:
    """Return the tests that import a module or are named after it; `tests` has the imports of each."""
    name = f"test_{module.rpartition('.')[2]}.py"
    found = {path for path, imported in tests.items() if module in imported or path.name == name}
    if found:
        return found
    package = (ROOT / module.partition(".")[0]).rglob("*.py")
    above = {module_of(path.relative_to(ROOT)) for path in package if module in imported_by(path)}
    return {path for path, imported in tests.items() if not above.isdisjoint(imported)}


def crates_of(paths: Iterable[Path]) -> list[str]:
    """Return the changed crates whose tests need neither root nor the extension."""
    crates = {path.parts[1] for path in paths if path.parts[0] == "native" and len(path.parts) > 2}
    for crate in sorted(crates & KERNEL_CRATES):
        print(f"quick: {crate} not tested; run `make test-rust` and the tests on real sockets")
    return sorted(crates - KERNEL_CRATES)


def module_of(path: Path) -> str:
    """Return the name of the module in a file, relative to the repository."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(file: Path) -> set[str]:
    """Return the modules that a file may import: `from a import b` gives a and a.b."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return names


def run(*command: str) -> int:
    """Run a command in the repository; return its exit status."""
    return subprocess.run(command, cwd=ROOT).returncode


if __name__ == "__main__":
    began_s = time.monotonic()
    result = main()
    print(f"quick: the tests took {time.monotonic() - began_s:.0f} s")
    sys.exit(result)
