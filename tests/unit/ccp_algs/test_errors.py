"""Every error code has a test, and errors read alike."""

import pickle
import re
from pathlib import Path

import pytest

from ccp_algs.errors import AlgorithmError, suggest

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


def test_empty_parts_are_left_out() -> None:
    assert str(AlgorithmError("a.b", "no")) == "a.b: no"
    assert str(AlgorithmError("a.b", "no", fix="yes\nand")) == "a.b: no\n  fix  yes\n       and"


def test_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(AlgorithmError("a.b", "no", "here", "so", "do")))
    assert (error.slug, error.where, error.fix) == ("a.b", "here", "do")


def test_close_names_are_suggested_before_all_are_listed() -> None:
    assert suggest("acke", ["acked", "lost"], "field") == "did you mean `acked`?"
    assert suggest("zzz", ["acked", "lost"], "field") == "fields: acked, lost"
    assert suggest("zzz", [], "field") == "there is no field"
