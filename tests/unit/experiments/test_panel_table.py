"""The table of docs/panel.md is what was measured."""

from __future__ import annotations

from scripts.panel_table import DOCUMENT, FIGURES, STATES, result, table, written


def test_the_document_has_the_kept_figures() -> None:
    text = DOCUMENT.read_text()
    assert written(text, result()) == text


def test_each_figure_has_a_row_and_what_was_not_measured_is_empty() -> None:
    rows = table(result()).splitlines()[-len(FIGURES) :]
    assert [row.split("|")[1].strip() for row in rows] == list(FIGURES.values())
    assert all(row.count("|") == len(STATES) + 2 for row in rows)
    assert rows[0].split("|")[2].strip() == ""
