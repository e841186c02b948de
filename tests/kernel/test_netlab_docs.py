"""The examples of docs/netlab.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.kernel(struct_ops=False)

TEXT = (Path(__file__).parents[2] / "docs/netlab.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(4))
def test_an_example_runs(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(EXAMPLES) == 4
    exec(compile(EXAMPLES[number], f"docs/netlab.md, example {number}", "exec"), {})
    assert re.search(r"[1-9]", capsys.readouterr().out)
