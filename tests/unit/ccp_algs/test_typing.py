"""What mypy makes of a user's file: a report has the fields of its program, and no others."""

from pathlib import Path

from mypy import api

from ccplane.agent.commands.new import text_for

ROOT = Path(__file__).parents[3]


def test_misspelt_field_of_a_report_is_found_in_a_users_file(tmp_path: Path) -> None:
    right, wrong = tmp_path / "mine.py", tmp_path / "yours.py"
    right.write_text(text_for("mine"))
    wrong.write_text(text_for("yours").replace("min(report.acked,", "min(report.ackd,"))
    cache = ROOT / ".mypy_cache" / "users"
    out, complaints, status = api.run(["--strict", f"--cache-dir={cache}", str(right), str(wrong)])
    assert (status, complaints) == (1, "")
    (error,) = [line for line in out.splitlines() if ": error: " in line]
    # By its name: of a module that it knows, mypy's cache repeats the error with the place that it had then.
    assert Path(error.partition(":")[0]).name == wrong.name
    assert '"YoursFold" has no attribute "ackd"; maybe "acked"?' in error
