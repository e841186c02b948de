"""Reports: what the model counts and writes, where intervals are drawn, and that no text becomes markup."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.errors import ResultError
from experiments.report import (
    Chart,
    Column,
    Evidence,
    Measured,
    Picture,
    Points,
    Report,
    Row,
    Section,
    Source,
    Table,
    rendered,
    write,
)
from experiments.report.html import SCRIPTS, SHAPES, slug
from experiments.report.intervals import drawn
from experiments.report.model import VERDICTS, written
from experiments.statistics import Estimate
from tests.unit.experiments.html_page import Page

NAN = math.nan
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    '"><img src=x onerror=alert(1)>',
    "' onclick='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "</pre></template><b>",
    'a,b\n"c"\r\nd&amp;&lt;',
    "\u2028 µ − ≥",
]


def estimate(value: float, low: float = NAN, high: float = NAN, n: int = 6) -> Estimate:
    return Estimate(value, low, high, n)


def table(cells: Sequence[Any] = ("cubic", 1e6, 9e5, 1.1e6, None), **more: Any) -> Table:
    columns = [
        Column("algorithm", "algorithm"),
        Column("goodput_bytes_per_s", "goodput", "Mbit/s", 8e-6, is_value=True, has_interval=True),
        Column("note", "note"),
    ]
    return Table("A table", "a-table", columns, [cells], **more)


def report(text: str = "plain") -> Report:
    """Return a report with a text at every place for one."""
    measured = Measured(text, estimate(0.9, 0.8, 0.95), at_most=1.0, unit=text)
    source = Source(text, text, text, text, text, text, text, {text: text})
    side = Evidence(
        [measured], "holds", text, source, [table((text, 1.0, 0.5, 2.0, text), note=text)],
        [Chart(text, text, text, [Points(text, [1.0, 2.0], [3.0, None], [text, text])])],
        [Picture(text, text.encode())], [{"algorithm": text}], text,
    )  # fmt: skip
    row = Row("a-row", text, "holds", [side, None], text, text, text, text, text)
    other = Row("b-row", text, "not run", [None, None], command=text)
    return Report(text, [Section(text, [row, other], ("one", text), text, text, [table()])], text, text)


# --- model --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (1, "1.00"), (0.9996, "1.00"), (48, "48.0"), (0.5, "0.500"), (999.7, "1,000"),
        (14_663, "14,663"), (5_785_752, "5.79M"), (1.23e-5, "1.23e−05"), (-3.25, "−3.25"),
        (0.00012, "0.000120"),
    ],
)  # fmt: skip
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert written(value) == text


def test_a_number_has_the_digits_that_distinguish_it_from_its_bound() -> None:
    assert written(1.0004, [1.0]) == "1.0004"
    assert written(1.0, [1.0]) == "1.00"
    found = Measured("", estimate(0.99996, 0.9999, 1.00004), at_most=1.0)
    assert (found.value_text, found.interval_text) == ("0.99996", "[0.9999, 1.00004]")


def test_verdicts_are_those_of_the_interval() -> None:
    one = Measured("", estimate(2.0, 1.5, 2.5), at_least=1.0)
    assert one.verdict == "holds"
    assert replace(one, at_least=3.0).verdict == "fails"
    undecided = replace(one, at_least=1.8)
    assert undecided.verdict == "undecided"
    assert undecided.runs_needed == 38  # 6 * (0.5 / 0.2) ** 2, rounded up
    assert replace(undecided, note="model").runs_needed is None
    assert replace(one, given="undecided").verdict == "undecided"
    assert replace(one, at_least=None).verdict is None
    assert replace(one, found=estimate(NAN, n=0)).verdict is None


def test_bounds_are_written_as_given() -> None:
    one = Measured("", estimate(1.0), 0.97, 1.03)
    assert one.bound_text == "0.97 to 1.03"
    assert replace(one, at_least=1.0, at_most=1.0).bound_text == "= 1"
    assert replace(one, at_least=1_500_000, at_most=None).bound_text == "≥ 1.5M"
    assert replace(one, at_least=None, at_most=20_000).bound_text == "≤ 20,000"


def test_the_deciding_figure_fails_or_is_the_closest_to_its_bound() -> None:
    far, close = (
        Measured(name, estimate(x, x, x), at_most=1.0) for name, x in (("far", 0.1), ("close", 0.9))
    )
    unknown = Measured("unknown", estimate(NAN, n=0), at_most=1.0)
    fails = Measured("fails", estimate(5.0, 4.0, 6.0), at_most=1.0)
    assert Evidence([unknown, far, close]).deciding == close
    assert Evidence([far, close, fails]).deciding == fails
    assert Evidence([unknown]).deciding is None
    undecided = Measured("", Estimate(1.0, 0.5, 1.5, 9), 1.0)
    assert Evidence([undecided, far]).deciding == undecided
    assert Evidence([undecided, far], "holds").deciding == far


def test_the_bar_counts_the_rows_of_counted_sections() -> None:
    rows = [Row(str(n), "", one) for n, one in enumerate(("fails", "holds", None, "holds", "not tested"))]
    both = Report("", [Section("", rows), Section("", rows, counted=False)])
    assert list(both.counts.items()) == [("holds", 2), ("fails", 1), ("not tested", 1)]


def test_a_table_is_written_once_however_many_rows_refer_to_it() -> None:
    shared = table()
    rows = [Row(str(n), "", None, [Evidence(tables=[shared])]) for n in range(3)]
    found = Report("", [Section("", rows, ("one",), tables=[shared, table()])])
    assert len(found.tables()) == 2
    assert len(Page(rendered(found)).all("pre")) == 2


def test_the_source_has_the_command_without_where_its_results_go() -> None:
    about = {
        "command": ["ccp", "bench", "sim", "--keep", "/some where", "--rounds", "6", "--report", "x.html"],
        "git": {"commit": "0123456789abcdef", "dirty": True},
        "date": "2026-11-23T00:00:00+00:00",
        "host": {"kernel": "6.18.0", "cpu": "a processor", "cores": 2},
    }
    source = Source.of(about, seeds="1")
    assert source.command == "ccp bench sim --rounds 6"
    assert source.facts == {
        "seeds": "1",
        "date": "2026-11-23",
        "revision": "0123456789ab with changes",
        "kernel": "Linux 6.18.0",
        "machine": "a processor, 2 processors",
    }
    assert Source.of({**about, "git": None}).revision == "unknown"


# --- CSV ----------------------------------------------------------------------------------------------------

_CELLS = st.one_of(
    st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\x00")),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
)


@given(st.lists(st.tuples(_CELLS, _CELLS), max_size=5))
def test_csv_has_the_data_and_the_page_has_the_csv(rows: list[tuple[Any, Any]]) -> None:
    one = Table("", "", [Column("a", "a"), Column("b", "b")], rows)
    back = list(csv.reader(io.StringIO(one.csv(), newline="")))
    assert back == [["a", "b"], *([str(cell) for cell in row] for row in rows)]
    page = Page(rendered(Report("", [Section("", tables=[one])])))
    # Parsers drop a line end at the beginning of the element.
    assert page.texts["table-1"].removeprefix("\n") == one.csv()


def test_unknown_cells_are_empty_and_intervals_have_columns() -> None:
    text = table(("cubic", NAN, None, None, None)).csv()
    assert text == (
        "algorithm,goodput_bytes_per_s,goodput_bytes_per_s.low,goodput_bytes_per_s.high,note\ncubic,,,,\n"
    )


# --- intervals ----------------------------------------------------------------------------------------------


def place(found: ElementTree.Element, name: str, attribute: str) -> list[float]:
    return [float(one.get(attribute, "").rstrip("%")) for one in found if one.get("class") == name]


def svg(one: Measured) -> ElementTree.Element:
    return ElementTree.fromstring(drawn(one))


def test_one_bound_is_in_the_middle_and_its_good_side_is_tinted() -> None:
    found = svg(Measured("", estimate(2.0, 1.5, 3.0), at_least=1.0))
    assert place(found, "bound", "x1") == [50]
    assert (place(found, "good", "x"), place(found, "good", "width")) == ([50], [50])
    [low], [high], [value] = (
        place(found, "interval", "x1"),
        place(found, "interval", "x2"),
        place(found, "value", "cx"),
    )
    assert 50 < low < value < high < 100
    assert math.isclose((value - 50) / (high - 50), 0.5, abs_tol=1e-3), "the axis is linear"
    below = svg(Measured("", estimate(0.5, 0.4, 0.6), at_most=1.0))
    assert (place(below, "good", "x"), place(below, "good", "width")) == ([0], [50])
    assert place(below, "interval", "x2")[0] < 50


def test_two_bounds_are_equally_far_from_the_middle() -> None:
    found = svg(Measured("", estimate(1.0, 0.9, 1.2), 0.97, 1.03))
    low, high = place(found, "bound", "x1")
    assert math.isclose(low + high, 100, abs_tol=0.02)
    assert place(found, "interval", "x1")[0] < low < high < place(found, "interval", "x2")[0]


def test_without_an_interval_there_is_an_open_circle() -> None:
    found = svg(Measured("share", estimate(0.5, n=2), at_most=1.0, unit="s"))
    assert [one.get("class") for one in found if one.tag == "circle"] == ["value open"]
    assert not place(found, "interval", "x1")
    assert found.get("aria-label") == "0.500 s, bound ≤ 1"
    assert found.get("class") == "against undecided"
    assert drawn(Measured("", estimate(NAN, n=0), at_most=1.0)) == ""


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3),
    st.floats(-1e9, 1e9) | st.none(),
    st.floats(-1e9, 1e9) | st.none(),
)
def test_everything_is_inside_the_drawing(
    values: list[float], one: float | None, other: float | None
) -> None:
    low, value, high = sorted(values)
    if one is not None and other is not None:
        one, other = min(one, other), max(one, other)
    found = svg(Measured("", estimate(value, low, high), one, other))
    for name in ("x", "x1", "x2", "cx"):
        assert all(0 <= float(child.get(name, "0").rstrip("%")) <= 100 for child in found)


# --- HTML ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup(text: str) -> None:
    plain, page = Page(rendered(report())), Page(rendered(report(text)))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    assert [sorted(of) for _, of in page.elements] == [sorted(of) for _, of in plain.elements]
    assert page.texts["table-2"].removeprefix("\n") == table((text, 1.0, 0.5, 2.0, text)).csv()
    shown = "".join(page.words)
    assert text.replace("\r", "") in shown.replace("\r", "")


def test_the_data_of_the_scripts_are_complete() -> None:
    text = HOSTILE[0]
    page = Page(rendered(report(text)))
    tables = json.loads(page.texts["tables"])
    assert tables["table-2"]["note"] == text
    assert tables["table-2"]["columns"][1] == {
        "name": "goodput_bytes_per_s",
        "label": "goodput",
        "unit": "Mbit/s",
        "scale": 8e-6,
        "is_value": True,
        "has_interval": True,
    }
    [chart] = page.all("figure", "chart")
    assert json.loads(chart["data-chart"] or "")["series"][0]["y"] == [3.0, None]
    [details, _] = page.all("details", "table")
    assert json.loads(details["data-marked"] or "") == [{"algorithm": text}]


def test_the_page_loads_nothing() -> None:
    text = rendered(report())
    page = Page(text)
    assert not [of for tag, of in page.elements if tag in {"link", "iframe", "object"}]
    assert all((of.get("src") or "data:").startswith("data:") for _, of in page.elements)
    [policy] = [of["content"] for of in page.all("meta") if of.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "uPlot" in text
    assert len(page.all("script")) == 2


def test_a_row_has_a_button_that_opens_what_belongs_to_it() -> None:
    page = Page(rendered(report()))
    ids = {of["id"] for _, of in page.elements if "id" in of}
    buttons = page.all("button", "open")
    assert [one["aria-controls"] for one in buttons] == ["a-row-more", "b-row-more"]
    assert {str(one["aria-controls"]) for one in buttons} <= ids
    assert [of["data-verdict"] for of in page.all("tr", "row")] == ["holds", "not run"]


def test_verdicts_have_a_sign_and_a_word_and_a_style_each() -> None:
    assert set(SHAPES) == set(VERDICTS)
    assert len(set(SHAPES.values())) == len(VERDICTS)
    rows = [Row(slug(one), "", one) for one in VERDICTS]
    text = rendered(Report("", [Section("", rows)], words={"holds": "met"}))
    chips = [of["class"] for of in Page(text).all("span", "chip")]
    assert chips == [f"chip {one.replace(' ', '-')}" for one in VERDICTS]
    assert all(f".{one.replace(' ', '-')}.chip" in text for one in VERDICTS)
    assert re.search(r"✓</b>\s+met", text)


def test_the_key_says_what_is_tinted() -> None:
    assert "the tinted side is where the claims hold." in rendered(Report("", []))
    assert "the tinted side is where BBR is better." in rendered(Report("", [], tinted="BBR is better"))


def test_all_scripts_are_in_the_page() -> None:
    text = rendered(report())
    found = {file.name for file in (Path(__file__).parents[3] / "experiments/report/web").glob("*.js")}
    assert found == set(SCRIPTS)
    assert "</script" not in text[text.rindex("<script>") + 8 : text.rindex("</script>")]


def test_equal_reports_are_equal_files(tmp_path: Path) -> None:
    first, second = (write(report(), tmp_path / name / "report.html") for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


def test_a_report_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError) as caught:
        write(report(), tmp_path / "file/report.html")
    assert caught.value.slug == "result.cannot_write"
    assert "--report" in caught.value.fix


def test_addresses_are_words() -> None:
    assert slug("Figure 2, <section> 3.1: µ") == "figure-2-section-3-1"
