"""`make quick` finds the tests of what changed."""

from pathlib import Path

import pytest

from scripts import quick


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("ccp_algs/params.py", "tests/unit/ccp_algs/test_params.py"),
        ("ccplane/agent/swap.py", "tests/unit/agent/test_reload.py"),  # by way of ccplane/agent/changes.py
        ("tests/unit/agent/fakes.py", "tests/unit/agent/test_agent_loop.py"),
        ("docs/live.md", "tests/unit/test_docs.py"),
        ("pyproject.toml", "tests/unit/test_repo.py"),
        ("tests/unit/test_quick.py", "tests/unit/test_quick.py"),
    ],
)
def test_a_change_brings_its_tests(changed: str, test: str) -> None:
    tests = quick.tests_of([Path(changed)])
    assert Path(test) in tests
    assert len(tests) < 40


def test_crates_that_need_root_are_left_out_aloud(capsys: pytest.CaptureFixture[str]) -> None:
    changed = [Path("native/ccp-lang/src/lib.rs"), Path("native/ccp-bpf/src/bpf/ccp.bpf.c")]
    assert quick.crates_of(changed) == ["ccp-lang"]
    assert "ccp-bpf" in capsys.readouterr().out
