from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ccplane.agent import cli, console
from ccplane.base import site
from ccplane.base.errors import CcpError, Several
from scripts import compiled_errors

ROOT = Path(__file__).parents[3]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
ERROR = CcpError("scenario.no_file", "cannot read x.yaml", fix="check the path")
ROW = "https://docs.test/errors/#scenario.no_file"


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package whose documents have a site."""
    site.address.cache_clear()
    monkeypatch.setattr(
        site, "metadata_urls", lambda: ["Source, https://x.test", f"{site.KEY}, https://docs.test/"]
    )
    yield
    site.address.cache_clear()


def test_the_address_has_one_place_and_its_placeholder_is_recognised() -> None:
    assert list(DECLARED) == [site.KEY]
    assert site.address_in([f"{site.KEY}, https://ccplane.example/docs"]) == ""
    assert site.address_in([f"{site.KEY}, https://ccplane.example:8000"]) == ""
    assert site.address_in([f"{site.KEY}, https://example.test/docs/"]) == "https://example.test/docs"
    assert site.address_in([f"{site.KEY}, nonsense", "Source, https://x.test"]) == ""


@pytest.mark.usefixtures("there")
def test_with_a_site_errors_end_with_the_address_of_their_row() -> None:
    assert str(ERROR) == f"scenario.no_file: cannot read x.yaml\n  fix  check the path\n  more {ROW}"
    assert str(Several([ERROR, ERROR])).count(ROW) == 2
    assert console.one_line(ERROR) == f"scenario.no_file: cannot read x.yaml; check the path; more: {ROW}"
    assert "more" not in ERROR.as_dict()
    assert "https://docs.test" in CliRunner().invoke(cli.app, ["--help"]).output


@pytest.mark.usefixtures("there")
def test_the_page_has_a_row_with_the_anchor() -> None:
    anchor = ROW.partition("#")[2]
    assert f'<a id="{anchor}"></a>' in (ROOT / "docs/errors.md").read_text()


def test_the_page_has_every_slug_once() -> None:
    slugs = re.findall(r'<a id="([^"]+)"></a>`([^`]+)`', (ROOT / "docs/errors.md").read_text())
    assert all(anchor == slug for anchor, slug in slugs)
    assert len(slugs) == len(set(slugs)) > 200
    assert compiled_errors.in_sources() == set(compiled_errors.SLUGS)


def test_without_a_site_nothing_is_added() -> None:
    assert "more" not in str(ERROR) + console.one_line(ERROR)
    assert "Documents:" not in CliRunner().invoke(cli.app, ["--help"]).output
