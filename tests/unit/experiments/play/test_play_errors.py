import re
from pathlib import Path

from experiments.play.errors import SLUGS

ROOT = Path(__file__).parents[4]


def slugs_in(folder: Path) -> set[str]:
    files = [file for file in folder.rglob("*.py") if file.name != "errors.py"]
    return {slug for file in files for slug in re.findall(r'"(play\.[a-z_]+)"', file.read_text())}


def test_the_list_of_errors_is_what_the_code_raises() -> None:
    assert slugs_in(ROOT / "experiments/play") == set(SLUGS)


def test_every_error_has_a_test() -> None:
    text = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    assert {slug for slug in SLUGS if slug in text} == set(SLUGS)
