"""What fails in `make test` runs again, alone; see `scripts.flaky`."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import flaky
from scripts.flaky import Failure, cargo_failures, failures, settle

ROOT = Path(__file__).parents[2]
CARGO = """\
     Running unittests src/lib.rs (target/release/deps/ccp_lang-0a1b)
running 2 tests
test flatten::tests::one ... ok
test flatten::tests::two ... FAILED
thread 'flatten::tests::two' (7) panicked at ccp-lang/src/flatten.rs:9:5:
test result: FAILED. 1 passed; 1 failed; 0 ignored
   Doc-tests ccp_lang
test ccp-lang/src/lib.rs - (line 3) ... FAILED
"""


def run_pytest(file: Path, outcomes: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*flaky.PYTEST, "-p", "tests.outcomes", *arguments]
    environment = {**os.environ, "CCPLANE_OUTCOMES": str(outcomes)}
    return subprocess.run([*command, str(file)], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.fixture
def test_file() -> Iterator[Path]:
    """A file for tests below the root of the repository, relative to which pytest names them."""
    (ROOT / "out").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "out") as folder:
        yield Path(folder) / "test_one.py"


@pytest.fixture
def fails_once(test_file: Path, tmp_path: Path) -> Path:
    """A file with a test that passes from its second run on."""
    test = test_file
    test.write_text(
        "from pathlib import Path\n\n"
        "def test_second_time():\n"
        f"    mark = Path({str(tmp_path / 'mark')!r})\n"
        "    first = not mark.exists()\n"
        "    mark.touch()\n"
        "    assert not first, 'the first time'\n"
    )
    return test


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_test_that_passes_alone_is_named_as_flaky(
    fails_once: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: tuple[str, ...]
) -> None:
    assert run_pytest(fails_once, tmp_path / "kept", *workers).returncode == 0
    (failure,) = failures(tmp_path / "kept")
    assert failure.message.startswith("call: AssertionError: the first time")
    assert settle(tmp_path / "kept", tries=2) == 0
    assert "flaky: " in capsys.readouterr().out.splitlines()[-1]


def test_a_test_that_fails_alone_fails_the_run(
    test_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test_file.write_text("def test_never():\n    assert False\n")
    assert run_pytest(test_file, tmp_path / "kept").returncode == 0
    assert settle(tmp_path / "kept", tries=2) == 1
    assert "failed: " in capsys.readouterr().out


def test_what_cannot_be_collected_fails_at_once(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("import no_such_module\n")
    assert run_pytest(tmp_path / "test_one.py", tmp_path / "kept").returncode != 0


def test_many_failures_are_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(flaky.MAX_FAILED + 1):
        flaky.add_failure(tmp_path, Failure(f"test_{number}", ["false"], "broken", "seed"))
    assert settle(tmp_path, tries=2) == 1
    assert "too many" in capsys.readouterr().out


def test_failed_tests_of_cargo_have_a_command_that_runs_them_alone() -> None:
    command = ["scripts/cargo.sh", "test", "--release", "--", "--show-output"]
    (failure,) = cargo_failures(CARGO.splitlines(keepends=True), command, "PROPTEST_RNG_SEED=1")
    assert failure.test == "ccp_lang::flatten::tests::two"
    assert failure.again == [*command[:3], "--", "--exact", "flatten::tests::two"]
    assert failure.message == "panicked at ccp-lang/src/flatten.rs:9:5:"


@pytest.mark.parametrize(("lines", "status"), [(CARGO, 101), (CARGO.partition("   Doc-tests")[0], 0)])
def test_a_run_of_cargo_may_go_on_only_if_all_that_failed_can_run_again(
    tmp_path: Path, lines: str, status: int
) -> None:
    if status:
        lines += "test result: FAILED. 0 passed; 1 failed\n"
    (tmp_path / "printed").write_text(lines)
    command = ["sh", "-c", 'cat "$0"; exit 101', str(tmp_path / "printed")]
    assert flaky.cargo(tmp_path / "kept", command) == status
