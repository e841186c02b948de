"""Flaky tests: rerun at the end of `make test`, and searched for by `make flaky`.

A flaky test is a defect, but not of the change under test. So a test that fails in `make test` runs again,
alone, up to twice. If it passes, the run passes and its last lines name the test; else the run fails. `make
flaky TEST=... N=50` repeats one test, `make flaky` the whole suite for a night.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[1]
OUTCOMES = ROOT / "out/tests"
FAILED, SLOW = "failed.jsonl", "slow.jsonl"
MAX_FAILED = 10
"""Maximum failed tests to run again; if more fail, the change is broken."""
PYTEST = (sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q")


class Failure(msgspec.Struct, frozen=True):
    """A failed test.

    Attributes:
        test: Its name.
        again: Command that runs it alone: `pytest` and a node, or a command of cargo.
        message: First line of its message.
        seed: Seed of the same random numbers.
        host_took: Share of the machine that the hypervisor took during the test.
    """

    test: str
    again: list[str]
    message: str
    seed: str
    host_took: float = 0.0


class Slow(msgspec.Struct, frozen=True):
    """A slow test and its duration [s]."""

    test: str
    duration_s: float


def add_failure(folder: Path, failure: Failure) -> None:
    """Record a failed test of this run."""
    _append(folder / FAILED, failure)


def add_slow(folder: Path, test: str, duration_s: float) -> None:
    """Record a slow test of this run."""
    _append(folder / SLOW, Slow(test, duration_s))


def _append(path: Path, record: msgspec.Struct) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:  # two runs may write at the same time
        file.write(msgspec.json.encode(record) + b"\n")


def failures(folder: Path) -> list[Failure]:
    """Return the failed tests of a run, each once."""
    path = folder / FAILED
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = [msgspec.json.decode(line, type=Failure) for line in lines]
    return list({failure.test: failure for failure in reversed(found)}.values())[::-1]


def slowest(folder: Path, count: int = 15) -> list[Slow]:
    """Return the slowest tests of a run."""
    path = folder / SLOW
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = [msgspec.json.decode(line, type=Slow) for line in lines]
    return sorted(found, key=lambda test: -test.duration_s)[:count]


def settle(folder: Path, tries: int) -> int:
    """Run failed tests again, each alone; return the exit status of the whole run."""
    if slow := slowest(folder):
        print("slowest tests:")
        for test in slow:
            print(f"  {test.duration_s:6.1f} s  {test.test}")
    failed = failures(folder)
    if not failed:
        return 0
    if len(failed) > MAX_FAILED:
        print(f"{len(failed)} tests failed, too many to run each again:")
        print("\n".join(f"  {failure.test}: {failure.message}" for failure in failed))
        return 1
    print(f"{len(failed)} failed; each runs again, alone, up to {tries} times", flush=True)
    passed = [failure for failure in failed if any(_passes(failure) for _ in range(tries))]
    broken = [failure for failure in failed if failure not in passed]
    for failure in broken:
        print(f"failed: {_line(failure)}")
    for failure in passed:
        print(f"flaky: {_line(failure)}")
    return 1 if broken else 0


def _line(failure: Failure) -> str:
    return f"{failure.test} | {failure.message} | {failure.seed} | host took {failure.host_took:.0%}"


def _passes(failure: Failure) -> bool:
    command = [*PYTEST, *failure.again[1:]] if failure.again[0] == "pytest" else failure.again
    environment = {name: value for name, value in os.environ.items() if name != "CCPLANE_OUTCOMES"}
    return subprocess.run(command, cwd=ROOT, env=environment).returncode == 0


RUNNING = re.compile(r"\s+Running .*\((?P<binary>[^)]+)\)")
TEST_FAILED = re.compile(r"test (?P<name>\S+) \.\.\. FAILED")
PANICKED = re.compile(r"thread '(?P<name>[^']+)'.* panicked at (?P<where>.*)")


def cargo(folder: Path, command: Sequence[str]) -> int:
    """Run `cargo test` and record failed tests; return its exit status, 0 if they can run again."""
    lines: list[str] = []
    with subprocess.Popen(
        [*command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, errors="replace"
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    status = run.returncode
    seed = f"PROPTEST_RNG_SEED={os.environ.get('PROPTEST_RNG_SEED', 'random')}"
    found = cargo_failures(lines, command, seed)
    for failure in found:
        add_failure(folder, failure)
    # Other failures, such as compiler errors or documentation tests, cannot run again.
    binaries = sum("test result: FAILED." in line for line in lines)
    return (
        0
        if status and found and binaries == len({failure.test.partition("::")[0] for failure in found})
        else status
    )


def cargo_failures(lines: Iterable[str], command: Sequence[str], seed: str) -> list[Failure]:
    """Return the failed tests in the output of `cargo test --no-fail-fast`, each with its command."""
    options = command[: command.index("--")] if "--" in command else command
    binary = None
    messages: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    for line in lines:
        if match := RUNNING.match(line):
            binary = match["binary"]
        elif line.lstrip().startswith("Doc-tests "):
            binary = None
        elif (match := TEST_FAILED.match(line)) and binary:
            found.append((binary, match["name"]))
        elif match := PANICKED.match(line):
            messages[match["name"]] = f"panicked at {match['where']}"
    return [
        Failure(
            test=f"{Path(binary).name.rpartition('-')[0]}::{name}",
            again=[*options, "--", "--exact", name],
            message=messages.get(name, "no message"),
            seed=seed,
        )
        for binary, name in found
    ]


def repeat(test: str, times: int) -> int:
    """Run one test `times` times, each in its own process; return 1 if it ever failed."""
    failed: Counter[str] = Counter()
    for number in range(1, times + 1):
        seed = str(random.randrange(2**32))
        run = subprocess.run(
            [*PYTEST, test], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if run.returncode not in (0, 1):
            print(run.stdout)
            return 2
        if run.returncode:
            failed[_summary(run.stdout)] += 1
            print(f"\n{run.stdout}\nfailed with PYTHONHASHSEED={seed}")
        print(f"\r{number} of {times} runs, {failed.total()} failed", end="", flush=True)
    print()
    for message, count in failed.most_common():
        print(f"{count} times: {message}")
    return 1 if failed else 0


def _summary(output: str) -> str:
    return next((line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))), "no summary")


def night(hours: float) -> int:
    """Repeat the suite for a number of hours, and list the tests that ever failed."""
    until = time.monotonic() + hours * 3600
    ever: Counter[str] = Counter()
    last: dict[str, Failure] = {}
    rounds = 0
    while not rounds or time.monotonic() < until:
        folder = OUTCOMES / f"night-{rounds}"
        for name in (FAILED, SLOW):
            (folder / name).unlink(missing_ok=True)
        seed = str(random.randrange(2**32))
        settings = {"CCPLANE_OUTCOMES": str(folder), "PYTHONHASHSEED": seed, "PROPTEST_RNG_SEED": seed}
        run = subprocess.run(
            ["make", "--no-print-directory", "test-all"], cwd=ROOT, env={**os.environ, **settings}
        )
        rounds += 1
        for failure in failures(folder):
            ever[failure.test] += 1
            last[failure.test] = failure
        print(f"== round {rounds}: {sum(ever.values())} failures so far, of {len(ever)} tests", flush=True)
        if run.returncode:
            print("this round ended early; see the output of make")
            break
    for test, count in ever.most_common():
        print(f"flaky: {count} of {rounds} rounds: {_line(last[test])}")
    return 1 if ever or run.returncode else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m scripts.flaky", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    settling = commands.add_parser("settle", help="run the failed tests of `make test` again, each alone")
    settling.add_argument("--tries", type=int, default=2, metavar="N")
    running = commands.add_parser("cargo", help="run `cargo test`, and record failed tests")
    running.add_argument("arguments", nargs=argparse.REMAINDER)
    repeating = commands.add_parser("repeat", help="repeat one test")
    repeating.add_argument("test")
    repeating.add_argument("-n", "--times", type=int, default=50, metavar="N")
    nights = commands.add_parser("night", help="repeat the whole suite")
    nights.add_argument("--hours", type=float, default=8.0)
    given = parser.parse_args()
    folder = Path(os.environ.get("CCPLANE_OUTCOMES", OUTCOMES))
    match given.command:
        case "settle":
            return settle(folder, given.tries)
        case "cargo":
            return cargo(folder, given.arguments)
        case "repeat":
            return repeat(given.test, given.times)
        case _:
            return night(given.hours)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
