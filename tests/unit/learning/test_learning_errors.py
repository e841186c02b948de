from __future__ import annotations

import re
from pathlib import Path

from experiments.learning.errors import SLUGS

ROOT = Path(__file__).parents[3]
SLUG = re.compile(r'"(learning\.[a-z_]+)"')
SOURCES = [file for file in (ROOT / "experiments/learning").glob("*.py") if file.name != "errors.py"]


def test_the_list_of_errors_is_what_the_code_raises() -> None:
    assert {slug for file in SOURCES for slug in SLUG.findall(file.read_text())} == set(SLUGS)


def test_every_error_has_a_test() -> None:
    folders = (Path(__file__).parent, ROOT / "tests/train")
    tests = [file for folder in folders for file in folder.glob("test_*.py") if file != Path(__file__)]
    assert {slug for file in tests for slug in SLUG.findall(file.read_text())} == set(SLUGS)
