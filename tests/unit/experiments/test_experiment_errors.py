from __future__ import annotations

import re
from pathlib import Path

from experiments.errors import SLUGS

ROOT = Path(__file__).parents[3]
SLUG = re.compile(r'"((?:scenario|run|result|sweep)\.[a-z_]+)"')
SOURCES = [*(ROOT / "experiments").glob("*.py"), *(ROOT / "experiments/runs").glob("*.py")]


def slugs_in(files: list[Path]) -> set[str]:
    return {slug for file in files for slug in SLUG.findall(file.read_text())}


def test_the_list_of_errors_is_what_the_code_raises() -> None:
    files = {"scenario.yaml", "sweep.json"}  # not slugs, but of the same form
    raised = slugs_in([file for file in SOURCES if file.name != "errors.py"]) - files
    assert raised == set(SLUGS)


def test_every_error_has_a_test() -> None:
    text = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    tested = {slug for slug in SLUGS if f'"{slug}"' in text or f'"{slug.partition(".")[2]}"' in text}
    assert tested == set(SLUGS)
