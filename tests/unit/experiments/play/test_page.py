"""The session of a page that runs Python itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ccp_algs import example_aimd
from experiments.play import page
from scripts.playground.__main__ import ALGORITHMS

SOURCE = Path(example_aimd.__file__).read_text()
SETTING = {"rate_bytes_per_s": 2.5e6, "rtt_us": 20_000, "seed": 3}

# Pyodide has no NumPy here, so nothing that the page runs may import it.
WITHOUT_NUMPY = """
import json, pathlib, sys
sys.modules["numpy"] = None
from experiments.play import page
begin = {"type": "begin", "setting": {"against": "cubic"}, "source": pathlib.Path(sys.argv[1]).read_text()}
said = page.handle(json.dumps(begin | {"params": {}, "speed": 1.0}))
edit = {"type": "edit", "source": begin["source"].replace("Param(0.5", "Param(0.6")}
print(said, page.advance(1.0), page.handle(json.dumps(edit)), page.advance(1.0))
"""


@pytest.fixture(autouse=True)
def no_session_before() -> Iterator[None]:
    page._session = None
    yield
    if page._session is not None:
        page._session.close()
    page._session = None


def handle(**message: Any) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = json.loads(page.handle(json.dumps(message)))
    return said


def begin(source: str = SOURCE, setting: dict[str, Any] = SETTING) -> list[dict[str, Any]]:
    return handle(type="begin", setting=setting, source=source, params={}, speed=1.0)


def kinds(said: list[dict[str, Any]]) -> list[str]:
    return [one["type"] for one in said]


def test_without_a_session_time_stands_still_and_messages_do_nothing() -> None:
    assert page.advance(1.0) == "[]"
    assert handle(type="pause") == []


@pytest.mark.parametrize("name", ALGORITHMS)
def test_sources_of_the_playground_run(name: str) -> None:
    assert kinds(begin(ALGORITHMS[name].read_text())) == ["accepted", "state"]
    assert '"samples"' in page.advance(0.1)


def test_a_source_that_is_accepted_runs() -> None:
    assert kinds(begin()) == ["accepted", "state"]
    assert "samples" in kinds(json.loads(page.advance(1.0)))
    assert "accepted" in kinds(handle(type="edit", source=SOURCE.replace("Param(0.5", "Param(0.6")))
    assert "accepted" not in kinds(handle(type="pause"))


def test_a_refused_edit_is_not_accepted() -> None:
    begin()
    said = handle(type="edit", source="def f(:")
    assert "accepted" not in kinds(said)
    assert "mine.py>:1" in next(one["text"] for one in said if one["type"] == "error")


@pytest.mark.parametrize(("source", "setting"), [("1 / 0", SETTING), (SOURCE, {"rtt_us": -1})])
def test_a_beginning_that_is_refused_leaves_no_session(source: str, setting: dict[str, Any]) -> None:
    begin()
    assert kinds(begin(source, setting)) == ["mark", "error"]
    assert page.advance(1.0) == "[]"


def test_the_empty_algorithm_keeps_its_window() -> None:
    begin(Path(page.__file__).with_name("empty.py").read_text())
    page.advance(1.0)
    (samples,) = [one for one in json.loads(page.advance(1.0)) if one["type"] == "samples"]
    (flow,) = samples["flows"]
    mss_bytes = 1448
    assert set(flow["cwnd_bytes"]) == {100 * mss_bytes}


def test_nothing_that_the_page_runs_imports_numpy() -> None:
    command = [sys.executable, "-c", WITHOUT_NUMPY, example_aimd.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"saved"' in done.stdout
