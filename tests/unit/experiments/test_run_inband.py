from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from experiments.errors import RunError
from experiments.netlab.spec import Int, IntNode
from experiments.runs import inband
from experiments.runs.artifacts import SUMMARIES
from experiments.scenario import Scenario
from tests.unit.experiments.test_run import SCENARIO

SINK = Int(nodes=(IntNode("sender", ("source",)), IntNode("receiver", ("sink",), 9)))


def with_telemetry() -> Scenario:
    return SCENARIO.replace(topology=msgspec.structs.replace(SCENARIO.topology, telemetry=SINK))


def test_without_telemetry_nothing_is_taken(tmp_path: Path) -> None:
    with inband.outlet(SCENARIO, tmp_path, {}, "mqtt://127.0.0.1:1") as outlet:
        assert outlet == inband.Outlet()
    assert not list(tmp_path.iterdir())


def test_without_an_agent_summaries_go_into_the_result_only(tmp_path: Path) -> None:
    facts: dict[str, Any] = {}
    with inband.outlet(with_telemetry(), tmp_path, facts, None) as outlet:
        assert outlet.publisher is None
        assert outlet.summaries_fd is not None
        os.write(outlet.summaries_fd, b"{}\n")
    assert (tmp_path / SUMMARIES).read_bytes() == b"{}\n"
    assert facts == {}


def stand_in(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    real = subprocess.Popen

    def start(command: list[str], **options: Any) -> Any:
        return real([command[0], "-c", program, *command[command.index("-m") + 2 :]], **options)

    monkeypatch.setattr(inband.subprocess, "Popen", start)


def test_a_publisher_that_does_not_start_is_reported_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "import sys; sys.exit('last words')")
    with pytest.raises(RunError) as caught:
        inband.Publisher(0, "mqtt://127.0.0.1:1", tmp_path / "copy")
    assert caught.value.slug == "run.publisher"
    assert "last words" in caught.value.why


def test_a_publisher_that_ends_too_early_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, """print('{"connected": true}\\n{"published": 3}')""")
    publisher = inband.Publisher(0, "mqtt://127.0.0.1:1", tmp_path / "copy")
    publisher._process.wait(30)
    with pytest.raises(RunError) as caught:
        publisher.must_run()
    assert "status 0" in caught.value.why
    assert publisher.stop() == {"published": 3}
