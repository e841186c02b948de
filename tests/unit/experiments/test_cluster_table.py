"""The table of sweeps on a cluster is what was measured."""

from __future__ import annotations

from scripts.cluster_table import DOCUMENT, result, table, written


def test_the_document_has_the_kept_figures() -> None:
    text = DOCUMENT.read_text()
    assert written(text, result()) == text
    assert table(result()) in text


def test_nothing_was_lost_and_nothing_is_another() -> None:
    found = result()
    assert found["cluster"]["done"] == found["one_process"]["done"] == found["runs"] == 1000
    assert (found["workers"], found["files_that_differ"]) == (4, 0)
