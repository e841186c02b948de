from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agent.changes import Reloaded
from agent.watch import Watcher
from datapath.errors import CcpError, UsageError
from tests.unit.agent.live import Edited, edited, text

SOURCE = text("def on_report(self, report):\n    self.flow.set(cwnd_bytes=20_000)")

Told = list[tuple[str, Reloaded | CcpError]]


def watching(live: Edited) -> tuple[Watcher, Told]:
    told: Told = []
    watcher = Watcher(live.plane, live.loader, lambda name, came: told.append((name, came)), look_s=0.005)
    watcher.start()
    return watcher, told


def until_told(live: Edited, told: Told, n: int) -> None:
    end_s = time.monotonic() + 20
    while len(told) < n:
        assert time.monotonic() < end_s
        live.plane.turn(0)
        time.sleep(0.001)


def test_saving_reloads_and_what_is_wrong_is_told(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", SOURCE, 1) as live:
        watcher, told = watching(live)
        live.file.write_text(SOURCE.replace("20_000", "30_000"))
        until_told(live, told, 1)
        live.file.write_text(SOURCE + "\nnonsense\n")
        until_told(live, told, 2)
        # as editors do it: a new file takes the old one's place
        other = tmp_path / "other"
        other.write_text(SOURCE.replace("20_000", "50_000"))
        os.replace(other, live.file)
        until_told(live, told, 3)
        watcher.close()
        live.report(1, acked=1)
    assert [type(came).__name__ for _, came in told] == ["Reloaded", "UsageError", "Reloaded"]
    assert live.datapath.written[-1].cwnd_bytes == 50_000
    assert watcher.files == [str(live.file)]


def test_touching_a_file_or_removing_it_does_nothing(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", SOURCE, 1) as live:
        watcher, told = watching(live)
        os.utime(live.file, (1, 1))
        instance = live.instance()
        live.file.unlink()
        for _ in range(50):
            live.plane.turn(0)
            time.sleep(0.001)
        live.file.write_text(SOURCE.replace("20_000", "30_000"))
        until_told(live, told, 1)
        watcher.close()
        assert live.instance() is not instance
    assert len(told) == 1


def test_nothing_to_watch_is_an_error(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", SOURCE) as live:
        live.load(SOURCE + "\n# text\n", "mine")
        with pytest.raises(UsageError) as caught:
            watching(live)
        assert caught.value.slug == "reload.no_file"


def test_file_that_cannot_be_read_is_told_at_the_start(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", SOURCE) as live:
        live.file.unlink()
        with pytest.raises(UsageError) as caught:
            watching(live)
        assert caught.value.slug == "reload.not_readable"
