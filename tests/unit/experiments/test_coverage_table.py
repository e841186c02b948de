"""The table of coverage in docs/verdicts.md."""

from __future__ import annotations

import json

from scripts.coverage_table import PAGE, RESULT, written


def test_the_page_shows_what_is_kept() -> None:
    text = PAGE.read_text()
    result = json.loads(RESULT.read_text())
    assert written(text, result) == text, "run `make docs-tables`"
    result["rows"][0]["covered"]["10"] = 0.123
    assert "| 12.3 |" in written(text, result)


def test_what_decides_covers_what_it_says() -> None:
    rows = json.loads(RESULT.read_text())["rows"]
    ours = [row for row in rows if row["method"].startswith("order statistics")]
    assert len(ours) == 4 + 2 * 5
    for row in ours:
        assert all(covered is None or covered > 0.935 for covered in row["covered"].values()), row
        assert row["covered"]["5"] is None
