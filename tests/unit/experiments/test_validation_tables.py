"""The tables of docs/validation.md are those of the kept results."""

from __future__ import annotations

import pandas as pd

from experiments.papers.kept import Kept
from experiments.papers.tables import Table
from scripts.validation_tables import DOCUMENT, END, begin, tenth_table, written


def test_the_document_has_the_tables_of_the_kept_results() -> None:
    text = DOCUMENT.read_text()
    assert all(text.count(begin(name)) == 1 for name in ("drawn", "tenth"))
    assert text.count(END) == 2
    assert written(text) == text, "run `make docs-tables`"


def test_a_part_is_a_row_with_deviations_that_have_a_sign_and_a_spread() -> None:
    columns = ("deviation_pct", "deviation_size_pct", "deviation_size_p90_pct")
    rows = pd.DataFrame([("goodput", 1.25, 2.0, 3.5)], columns=["quantity", *columns])
    table = Table("", ["quantity"], columns, rows)
    about = {"date": "2026-11-26T04:00:00+00:00", "git": {"commit": "0123456789abcdef", "dirty": False}}
    kept = Kept("hyvar", "paths-tenth", 20, 20, {"other work used the processors": 2}, (table,), (), about)
    assert tenth_table([kept]).splitlines()[-1] == (
        "| hyvar | `paths` | 2026-11-26, `0123456789ab` | 20 | 2 | +1.2 (3.5) |"
    )
