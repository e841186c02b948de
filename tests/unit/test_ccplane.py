"""`import ccplane`: its cost, names and types, and users' folders with the same names as packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

import ccplane
from ccplane.agent.commands.first import text_for
from experiments.learning.registration import ENV_ID

ROOT = Path(__file__).parents[2]
CCP = [sys.executable, "-P", "-c", "from ccplane.agent.entry import main; main()"]
MINE = """
from ccplane import Algorithm, register
from ccplane.fold import Ack, Flow, FoldProgram, every, total
from agent import Policy
from telemetry import GAIN

class Fold(FoldProgram):
    acked = total(Ack.bytes_acked)
    when = every(Flow.srtt_us)

@register("mine")
class Mine(Algorithm):
    program = Fold
    def on_report(self, report):
        self.flow.set(cwnd_bytes=min(report.cwnd_bytes + GAIN * Policy.step * report.acked, 10**8))
"""


def python(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program as in a notebook: import first from its directory, then from ccplane's."""
    return run(sys.executable, "-c", program, folder=folder, PYTHONPATH=str(ROOT))


def run(*command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment}
    return subprocess.run(command, cwd=folder, env=known, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's `agent.py`, `telemetry.py` and `experiments/`, and an algorithm that imports two of them."""
    (tmp_path / "agent.py").write_text("class Policy:\n    step = 1\n")
    (tmp_path / "telemetry.py").write_text("GAIN = 1\n")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments/__init__.py").write_text("")
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def test_the_import_brings_nothing_else(tmp_path: Path) -> None:
    program = "import sys; before = set(sys.modules); import ccplane; print(*set(sys.modules) - before)"
    done = python(program, tmp_path)
    assert set(done.stdout.split()) <= {"__future__", "ccplane", "ccplane.base", "ccplane.base.guard"}


def test_every_name_is_there_and_nothing_else() -> None:
    assert set(ccplane.__all__) <= set(dir(ccplane))
    missing = [name for name in ccplane.__all__ if getattr(ccplane, name) is None]
    assert missing == []
    assert ccplane.connect is ccplane.Client
    with pytest.raises(AttributeError, match="no attribute 'swep'"):
        getattr(ccplane, "swep")  # noqa: B009 -- mypy knows that it is not there


def test_types_are_the_real_ones(tmp_path: Path) -> None:
    file, wrong = tmp_path / "user.py", tmp_path / "yours.py"
    wrong.write_text(text_for("yours").replace("report.lost", "report.losd"))
    file.write_text(
        "import ccplane\n"
        "from ccplane.fold import FoldProgram, every, totl\n"
        "import ccplane.pyportus as portus\n"
        "n: int = ccplane.load_result('x')\n"
        "ccplane.swep\n"
        "ccplane.connect(pin='x')\n"
        "portus.start(1, None)\n"
    )
    out, complaints, _ = api.run(
        ["--strict", f"--cache-dir={ROOT / '.mypy_cache/users'}", str(file), str(wrong)]
    )
    errors = [line for line in out.splitlines() if ": error: " in line]
    (misspelt,) = [line for line in errors if wrong.name in line]
    assert '"Fold" has no attribute "losd"' in misspelt, "a report has its program's fields"
    of_file = [line.partition(":")[2].split(":")[0] for line in errors if line is not misspelt]
    assert (of_file, complaints) == (["2", "4", "5", "6", "7"], ""), out


@pytest.mark.parametrize("order", ["ccplane, gymnasium", "gymnasium, ccplane"])
def test_gymnasium_knows_the_environment(order: str, tmp_path: Path) -> None:
    done = python(f"import {order}; print(gymnasium.make({ENV_ID!r}).spec.id)", tmp_path)
    assert done.stdout == f"{ENV_ID}\n", done.stderr


def test_what_needs_no_shadowed_package_works(folder: Path) -> None:
    done = python("import agent, ccplane, ccplane.fold; print(agent.Policy.step, ccplane.Param)", folder)
    assert done.stdout == "1 <class 'ccp_algs.params.Param'>\n", done.stderr


def test_a_folder_of_results_shadows_nothing(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    done = python("import ccplane; print(ccplane.Scenario)", tmp_path)
    assert done.stdout == "<class 'experiments.scenario.Scenario'>\n", done.stderr


@pytest.mark.parametrize(
    ("program", "name", "other"),
    [
        ("import ccplane; ccplane.Scenario", "experiments", "experiments"),
        ("import ccplane; ccplane.connect()", "telemetry", "telemetry.py"),
        ("import ccplane, telemetry", "telemetry", "telemetry.py"),
        ("import telemetry, ccplane", "telemetry", "telemetry.py"),
    ],
)
def test_what_is_shadowed_is_said(program: str, name: str, other: str, folder: Path) -> None:
    done = python(program, folder)
    assert done.returncode == 1
    said = done.stderr[done.stderr.index("load.shadowed") :]
    assert f"`import {name}` finds {folder / other}" in said
    assert str(ROOT / name) in said
    assert f"rename {folder / other}" in said


def test_modules_next_to_an_algorithm_are_its_own(folder: Path) -> None:
    done = run(*CCP, "check", "mine.py", folder=folder, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr


def test_ccp_simulates_in_such_a_folder(folder: Path) -> None:
    done = run(*CCP, "simulate", "mine.py", "--seconds", "1", folder=folder, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr


def test_ccp_says_what_shadows_it(folder: Path) -> None:
    done = run(*CCP, "telemetry", "decode", "x.pcap", folder=folder, PYTHONPATH=f"{folder}:{ROOT}")
    assert done.returncode != 0
    assert done.stderr.startswith("load.shadowed: ")
    assert "Traceback" not in done.stderr
