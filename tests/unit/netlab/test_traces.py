from __future__ import annotations

from pathlib import Path

import pytest

from experiments.netlab import LabError
from experiments.netlab.traces import read_trace


def test_a_trace_is_its_times(tmp_path: Path) -> None:
    file = tmp_path / "a.trace"
    file.write_text("0\n3\n3\n10\n\n")
    assert read_trace(file, "link>.trace") == [0, 3, 3, 10]


@pytest.mark.parametrize(
    ("text", "line"),
    [("1\nx\n", ":2"), ("1\n\n2\n", ":2"), ("-1\n", ":1"), ("1.5\n", ":1"), ("5\n7\n6\n", ":3")],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "a.trace"
    file.write_text(text)
    with pytest.raises(LabError) as caught:
        read_trace(file, "link>.trace")
    assert caught.value.slug == "lab.bad_value"
    assert caught.value.where == f"{file}{line}"


@pytest.mark.parametrize("text", ["", "\n", "0\n0\n"])
def test_a_trace_has_a_length(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.trace"
    file.write_text(text)
    with pytest.raises(LabError) as caught:
        read_trace(file, "link>.trace")
    assert "above 0" in caught.value.message


def test_a_missing_trace_names_the_field() -> None:
    with pytest.raises(LabError) as caught:
        read_trace("/nowhere/a.trace", "link>.trace")
    assert caught.value.where == "link>.trace"
    assert "/nowhere/a.trace" in caught.value.message
