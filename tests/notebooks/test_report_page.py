"""A report in a real browser: rows, filters, tables, figures, downloads, keys, print."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from experiments.report import (
    Chart,
    Column,
    Evidence,
    Measured,
    Points,
    Report,
    Row,
    Section,
    Source,
    Table,
    write,
)
from experiments.statistics import Estimate
from tests.notebooks.browser import BROWSER, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(
    shutil.which(BROWSER) is None or find_spec("playwright") is None,
    reason="no Chromium or no Playwright; run `make setup`",
)

HOSTILE = '</pre><script>document.title = "owned"</script>"\n,'
SIZES = (1000, 10_000, 100_000)


def table() -> Table:
    columns = [
        Column("algorithm", "algorithm"),
        Column("size_bytes", "size", "kB", 1e-3),
        Column("goodput_bytes_per_s", "goodput", "Mbit/s", 8e-6, is_value=True, has_interval=True),
        Column("n", "runs"),
    ]
    rows = [
        (name, size, *((None,) * 3 if (name, size) == ("reno", 1000) else (rate, rate * 0.9, rate * 1.1)), 10)
        for name, rate in ((HOSTILE, 3e6), ("reno", 1e6), ("vegas", 2e6))
        for size in SIZES
    ]
    return Table("Goodput", "goodput", columns, rows)


def report() -> Report:
    shared = table()
    source = Source("ccp paper x", "2026-11-24", "0123456789ab", "Linux 6.18", "a processor", seeds="1 to 10")

    def side(low: float, high: float) -> Evidence:
        measured = Measured("ratio", Estimate((low + high) / 2, low, high, 10), at_least=1.0)
        chart = Chart("Rounds", "round", "ratio", [Points("ratio", [1, 2], [low, high])], at_least=1.0)
        return Evidence(
            [measured], measured.verdict, "", source, [shared], [chart],
            marked=[{"algorithm": "reno", "size_bytes": 10_000}], value="goodput_bytes_per_s",
        )  # fmt: skip

    rows = [
        Row("first", "it is faster", "holds", [side(1.1, 1.2), side(0.9, 1.1)], "Figure 1"),
        Row("second", "it is slower", "fails", [side(0.8, 0.9), side(0.8, 0.9)], "Figure 2", why="it is not"),
        Row("third", "it is used", "not tested", [None, None], "Figure 3", why="nothing to run"),
    ]
    return Report(HOSTILE, [Section("Claims", rows, ("real sockets", "simulation"))])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """Give the page of the report; whatever its console complains of, or it loads, fails the test."""
    file = write(report(), tmp_path / "report.html")
    complaints: list[str] = []
    found = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    found.on("console", lambda message: complaints.append(message.text))
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on("request", lambda request: complaints.append(request.url))
    found.goto(file.as_uri())
    yield found
    found.close()
    assert complaints == [file.as_uri()]


def shown(found: Page) -> list[str | None]:
    return [one.get_attribute("id") for one in found.locator("tr.row:visible").all()]


def test_the_bar_the_search_and_the_sides_choose_rows(opened: Page) -> None:
    assert shown(opened) == ["first", "second", "third"]
    fails = opened.locator('.share[data-verdict="fails"]')
    fails.click()
    assert shown(opened) == ["second"]
    assert opened.locator("#shown").inner_text() == "1 of 3 rows"
    fails.click()
    opened.fill("#search", "FASTER")
    assert shown(opened) == ["first"]
    opened.fill("#search", "")
    opened.check("#differing")
    assert shown(opened) == ["first"], "real sockets hold, the simulator is undecided"
    opened.uncheck("#differing")
    opened.click('.sort[data-by="verdict"]')
    assert shown(opened) == ["second", "first", "third"], "what fails comes first"


def test_a_row_opens_with_figures_table_and_origin(opened: Page) -> None:
    assert not opened.locator("#first-more").is_visible()
    opened.click("#first button.open")
    more = opened.locator("#first-more")
    more.locator("canvas").first.wait_for()
    assert opened.url.endswith("#first")
    assert "1 to 10" in more.inner_text()
    assert "ccp paper x" in more.inner_text()
    assert opened.title() == HOSTILE.replace("\n", " ")
    rows = more.locator("table.sortable tbody tr")
    view = more.locator("details.table").first
    view.scroll_into_view_if_needed()
    rows.first.wait_for()
    table_rows = view.locator("tbody tr")
    assert table_rows.count() == 9
    assert view.locator("tbody tr.marked").count() == 1
    assert view.locator("tbody tr.marked").inner_text().split("\t") == ["reno", "10", "8 [7.2, 8.8]", "10"]
    view.locator("thead button", has_text="goodput").click()
    assert [one.split("\t")[2].split(" ")[0] for one in table_rows.all_inner_texts()] == [
        "8", "8", "16", "16", "16", "24", "24", "24", "",
    ]  # fmt: skip
    view.get_by_label("algorithm").first.select_option("vegas")
    assert table_rows.count() == 3
    assert view.locator("output").inner_text() == "3 of 9 rows"
    view.get_by_label("only marked rows").check()
    assert table_rows.count() == 0


def test_the_download_is_the_data(opened: Page, tmp_path: Path) -> None:
    opened.click("#first button.open")
    button = opened.locator("#first-more details.table button.csv").first
    button.scroll_into_view_if_needed()
    with opened.expect_download() as saved:
        button.click()
    assert saved.value.suggested_filename == "goodput.csv"
    saved.value.save_as(tmp_path / "saved.csv")
    text = (tmp_path / "saved.csv").read_text()
    assert text == table().csv()
    assert next(iter(csv.DictReader(io.StringIO(text))))["algorithm"] == HOSTILE


def test_keys_move_between_rows_and_open_them(opened: Page) -> None:
    opened.keyboard.press("j")
    opened.keyboard.press("j")
    opened.keyboard.press("Enter")
    assert opened.locator("#second-more").is_visible()
    opened.keyboard.press("k")
    assert opened.evaluate("document.activeElement.closest('tr').id") == "first"
    opened.keyboard.press("/")
    assert opened.evaluate("document.activeElement.id") == "search"
    opened.keyboard.type("jk")
    assert opened.input_value("#search") == "jk", "keys are text where text is typed"


def test_an_address_opens_its_row(opened: Page) -> None:
    opened.goto(f"{opened.url}#second")
    assert opened.locator("#second-more").is_visible()


def test_nothing_is_wider_than_the_screen(opened: Page) -> None:
    opened.click("#open-all")
    opened.locator("#first-more canvas").first.wait_for()
    for width in (360, 768, 1600):
        opened.set_viewport_size({"width": width, "height": 800})
        opened.wait_for_function("document.documentElement.scrollWidth <= innerWidth")


def test_themes_change_and_paper_is_white(opened: Page) -> None:
    def back() -> str:
        return str(opened.evaluate("getComputedStyle(document.documentElement).backgroundColor"))

    light = back()
    opened.select_option("#theme", "dark")
    assert back() != light
    opened.click("#first button.open")
    opened.emulate_media(media="print")
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert back() == "rgb(255, 255, 255)"
    assert opened.locator("#first-more .uplot canvas").count() == 4, "two charts, and two figures of tables"
    assert not opened.locator("#search").is_visible()
    opened.evaluate("dispatchEvent(new Event('afterprint'))")
    opened.emulate_media(media="screen")
    assert back() != light
