from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from experiments.traffic.viewer import Viewer

Start = Callable[[str], Viewer]


def message(line: str) -> Any:
    return json.loads(line) if line.startswith("{") else None


@pytest.fixture
def start() -> Iterator[Start]:
    started = []

    def begin(script: str) -> Viewer:
        running = subprocess.Popen(
            ["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        viewer = Viewer(
            running,
            running.stdout,
            message,
            where="here",
            hint="look",
            objects=lambda reported: [one["n"] for one in reported if one["kind"] == "download"],
            playback=lambda reported: [one["n"] for one in reported if one["kind"] == "played"],
        )
        started.append(viewer)
        return viewer

    yield begin
    for one in started:
        one.stop()


def test_it_is_over_when_everything_was_played_though_the_program_goes_on(start: Start) -> None:
    reported = ('{"kind":"download","n":1}', "noise", '{"kind":"played","n":2}', '{"kind":"ended"}')
    viewer = start(
        f"printf '%s\\n' {' '.join(repr(one) for one in reported)}; exec {sys.executable} -c 'input()'"
    )
    viewer.join(30.0)
    assert not viewer.running
    assert viewer.failure is None
    assert (viewer.objects(), viewer.playback(), viewer.complaints) == ([1], [2], ["noise"])


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ("""echo '{"kind":"error","message":"no manifest"}'; sleep 60""", "the player reports: no manifest"),
        ("echo out of memory; exit 3", "the player exited with status 3"),
        ("exec >&-; sleep 60", "the player stopped reporting"),
    ],
)
def test_what_goes_wrong_is_reported(start: Start, script: str, failure: str) -> None:
    viewer = start(script)
    viewer.join(30.0)
    if "exit" in script:
        viewer._process.wait(30)
    assert viewer.failure == failure


def test_one_that_is_stopped_has_not_failed_before(start: Start) -> None:
    viewer = start("sleep 60")
    assert viewer.running
    assert viewer.failure is None
    viewer.stop()
    assert not viewer.running
