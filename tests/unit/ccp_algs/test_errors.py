"""Every error code has a test."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SLUG = re.compile(r'"((?:param|fold|registry|contract|policy)\.[a-z_]+)"')


def slugs() -> set[str]:
    sources = (HERE.parents[2] / "ccp_algs").rglob("*.py")
    return {slug for source in sources for slug in SLUG.findall(source.read_text())}


def test_there_are_error_codes() -> None:
    assert len(slugs()) > 20


@pytest.mark.parametrize("slug", sorted(slugs()))
def test_error_code_is_tested(slug: str) -> None:
    assert any(f'"{slug}"' in test.read_text() for test in HERE.glob("test_*.py"))
