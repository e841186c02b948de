"""Lists kept results whose inputs have changed since (`make quick`; the release uses `--strict`).

`RESULTS` has the inputs of each. A result is outdated if a commit that its own commit does not contain
touches one of its inputs. Its own commit is the one that it records, else the one that last changed its file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]

_PROGRAMS: Final = (
    "native/ccp-bpf/src",
    "native/ccp-lang/src",
    "native/ccp-load/src",
    "native/ccp-record/src",
)
_KERNEL_PARTS: Final = (
    *_PROGRAMS,
    *(f"native/ccp-{part}/src" for part in ("node", "rtcp", "rtcp-core", "switch", "trace")),
    "native/ccp-int/src/host",
)
_AGENT: Final = ("ccplane/agent", "ccplane/datapath", "ccp_algs/fold")
_PACKAGING: Final = ("pyproject.toml", "native/Cargo.toml", "native/Cargo.lock")
_SIMULATOR: Final = ("native/ccp-sim/src", "native/ccp-tcp/src", "native/ccp-emu/src")


@dataclass(frozen=True, slots=True)
class Result:
    """A kept result, or several of one kind.

    Attributes:
        files: The files, as a pattern relative to the repository.
        inputs: Files and folders that the result depends on.
        renew: The command that measures it again.
    """

    files: str
    inputs: tuple[str, ...]
    renew: str


RESULTS: Final = (
    Result(
        "docs/kernels.json",
        (*_KERNEL_PARTS, "ccplane/datapath", "telemetry/bpfcc", "tests/kernel"),
        "make test-kernels KEEP=--keep",
    ),
    Result(
        "docs/results/services.json",
        (
            "ccplane/agent/service",
            "broker/mosquitto",
            "scripts/vm/services*.py",
            "ccplane/agent/supervised.py",
        ),
        "make test-services KEEP=--keep",
    ),
    Result(
        "docs/results/compose.json",
        ("docker-compose.yml", "containers", "broker/mosquitto", "scripts/vm/compose*.py", "pyproject.toml"),
        "make wheel test-compose KEEP=--keep",
    ),
    Result(
        "docs/results/soak.json",
        ("experiments/soak", "native/ccp-bpf/src", *_AGENT, "broker"),
        "make soak-vm HOURS=2 KEEP=--keep",
    ),
    Result(
        "docs/results/wheel/*.json",
        (
            *_PACKAGING,
            "native/ccp-native/build.rs",
            "scripts/wheel.sh",
            "scripts/vm/wheel*.py",
            *_KERNEL_PARTS,
        ),
        "make wheel test-wheel-kernels KEEP=--keep",
    ),
    *(
        Result(
            f"docs/results/bench/{name}.json",
            (f"experiments/bench/{name}.py", *inputs),
            f"ccp bench {name} --keep docs/results/bench",
        )
        for name, inputs in {
            "bus": ("broker", "telemetry/bus.py", "telemetry/codec.py", "ccplane/agent/inbox.py"),
            "datapath": _PROGRAMS,
            "flows": ("native/ccp-bpf/src", *_AGENT),
            "latency": ("native/ccp-bpf/src", *_AGENT),
            "reports": ("native/ccp-bpf/src", *_AGENT),
            "sim": _SIMULATOR,
        }.items()
    ),
)
"""All kept results that a release renews."""


class NoHistoryError(Exception):
    """The history of the repository is missing, with the reason."""


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.outdated", description=__doc__)
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a result is outdated")
    strict = parser.parse_args(arguments).strict
    try:
        found = list(outdated(root))
    except NoHistoryError as error:
        print(f"kept results: cannot tell whether they are outdated: {error}")
        return int(strict)
    for line in found:
        print(line)
    return int(strict and bool(found))


def outdated(root: Path, results: Sequence[Result] = RESULTS) -> Iterator[str]:
    """Yield a line for results of the same commit, if their inputs changed after it.

    Raises:
        NoHistoryError: Without git, a repository, or its whole history.
    """
    if _git(root, "rev-parse", "--is-shallow-repository") != "false":
        raise NoHistoryError("this clone is shallow; `git fetch --unshallow` completes it")
    for result in results:
        names: dict[str, list[str]] = {}
        for file in sorted(root.glob(result.files)):
            for recorded in sorted(set(_recorded(json.loads(file.read_text())))) or [""]:
                name = str(file.relative_to(root))
                if compared := _compared(root, name, recorded, result.inputs):
                    names.setdefault(compared, []).append(name)
        for compared, of_same in names.items():
            yield f"outdated: {', '.join(of_same)}: {compared}; renew with `{result.renew}`"


def _compared(root: Path, name: str, recorded: str, inputs: tuple[str, ...]) -> str | None:
    """Return the commit of a result, and the newest that it does not contain and that touches its inputs."""
    note = ""
    commit = _newest(root, f"{recorded}^0") if recorded else None
    if commit is None:
        unknown = f"commit {recorded} is unknown here" if recorded else "it records no commit"
        note = f" (the last change of the file: {unknown})"
        commit = _newest(root, "HEAD", name)
    if not commit:
        return None  # not committed yet
    newer = _newest(root, f"{commit.split()[0]}..HEAD", *inputs)
    return f"of {commit}{note}, but {newer} changed its inputs" if newer else None


def _recorded(kept: Any) -> Iterator[str]:
    """Yield the commits that a result records, without the mark of uncommitted changes."""
    if not isinstance(kept, dict):
        return
    for key, value in kept.items():
        if key in ("revision", "commit") and isinstance(value, str) and value:
            yield value.removesuffix("+")
        else:
            yield from _recorded(value)


def _newest(root: Path, revision: str, *paths: str) -> str | None:
    """Return hash and date of the newest commit of a revision that touches paths; "" if none does.

    None if the revision is unknown.
    """
    try:
        return _git(root, "log", "-1", "--format=%h (%cs)", revision, "--", *paths)
    except NoHistoryError:
        return None


def _git(root: Path, *command: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *command], capture_output=True, text=True)
    except OSError as error:
        raise NoHistoryError(f"git: {error.strerror}") from None
    if done.returncode:
        raise NoHistoryError((done.stderr.strip().splitlines() or ["git failed"])[0])
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
