from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from ccplane.agent.changes import Reloaded
from ccplane.agent.files import Files, Stamp
from ccplane.agent.watch import GONE_LOOKS, Watcher
from ccplane.base.errors import CcpError, UsageError
from tests.unit.agent.live import Edited, edited, text

SOURCE = text("def on_report(self, report):\n    self.flow.set(cwnd_bytes=20_000)")

Reported = list[tuple[str, Reloaded | CcpError]]


def watching(live: Edited) -> tuple[Watcher, Reported]:
    reported: Reported = []
    watcher = Watcher(
        live.agent_loop, live.loader, lambda name, came: reported.append((name, came)), look_s=0.005
    )
    watcher.start()
    return watcher, reported


def until_reported(live: Edited, reported: Reported, n: int) -> None:
    end_s = time.monotonic() + 20
    while len(reported) < n:
        assert time.monotonic() < end_s
        live.agent_loop.turn(0)
        time.sleep(0.001)


def counting_looks(live: Edited) -> Callable[[int], None]:
    """Return a function that waits for N polls of the watcher."""
    looks = threading.Semaphore(0)

    class Counting(Files):
        def stamps(self, paths: Iterable[str]) -> dict[str, Stamp]:
            found = super().stamps(paths)
            looks.release()
            return found

    def until_looked(times: int) -> None:
        while looks.acquire(blocking=False):
            pass
        for _ in range(times):
            assert looks.acquire(timeout=30)

    live.loader.files = Counting()
    return until_looked


def test_saving_reloads_and_what_is_wrong_is_reported(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", SOURCE, 1) as live:
        watcher, reported = watching(live)
        live.file.write_text(SOURCE.replace("20_000", "30_000"))
        until_reported(live, reported, 1)
        live.file.write_text(SOURCE + "\nnonsense\n")
        until_reported(live, reported, 2)
        # as editors do: a new file replaces the old one
        other = tmp_path / "other"
        other.write_text(SOURCE.replace("20_000", "50_000"))
        os.replace(other, live.file)
        until_reported(live, reported, 3)
        watcher.close()
        live.report(1, acked=1)
    assert [type(came).__name__ for _, came in reported] == ["Reloaded", "UsageError", "Reloaded"]
    assert live.datapath.written[-1].cwnd_bytes == 50_000
    assert watcher.files == [str(live.file)]


HELPED = text(
    "def on_report(self, report):\n    self.flow.set(cwnd_bytes=helper.window(self))", head="import helper"
)
HELPER = "def window(algorithm):\n    return 20_000\n"


def test_saving_a_module_alongside_the_file_reloads_with_it(tmp_path: Path) -> None:
    helper = tmp_path / "helper.py"
    helper.write_text(HELPER)
    with edited(tmp_path / "mine.py", HELPED, 1) as live:
        watcher, reported = watching(live)
        helper.write_text(HELPER.replace("20_000", "30_000"))
        until_reported(live, reported, 1)
        live.report(1, acked=1)
        assert live.datapath.written[-1].cwnd_bytes == 30_000
        helper.write_text(HELPER.replace("20_000", "int(algorithm.nothing)"))
        until_reported(live, reported, 2)
        live.report(1, acked=1)
        assert live.datapath.written[-1].cwnd_bytes == 30_000, "the old version keeps its old helper"
        helper.write_text(HELPER.replace("20_000", "40_000"))
        until_reported(live, reported, 3)
        watcher.close()
        live.report(1, acked=1)
        assert live.datapath.written[-1].cwnd_bytes == 40_000
    done, error, _ = (came for _, came in reported)
    assert isinstance(done, Reloaded)
    assert done.old_sha256 != done.new_sha256
    assert isinstance(error, CcpError)
    assert error.where.endswith("helper.py:2")
    assert str(helper) in watcher.files


def test_version_that_waits_for_another_file_is_tried_again_when_that_is_saved(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", SOURCE, 1) as live:
        watcher, reported = watching(live)
        live.file.write_text(HELPED)
        until_reported(live, reported, 1)
        helper = tmp_path / "helper.py"
        helper.write_text("1 / 0")
        until_reported(live, reported, 2)
        helper.write_text(HELPER.replace("20_000", "30_000"))
        until_reported(live, reported, 3)
        watcher.close()
        live.report(1, acked=1)
    first, second, third = (came for _, came in reported)
    assert isinstance(first, CcpError)
    assert "helper" in first.why
    assert isinstance(second, CcpError)
    assert second.where.endswith("helper.py:1")
    assert isinstance(third, Reloaded)
    assert live.datapath.written[-1].cwnd_bytes == 30_000


def test_file_takes_over_again_from_a_text_that_was_loaded(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", SOURCE, 1) as live:
        until_looked = counting_looks(live)
        watcher, reported = watching(live)
        live.load(SOURCE.replace("20_000", "30_000"), "mine")
        until_looked(3)
        assert reported == [], "the text runs until the file is saved"
        live.file.write_text(SOURCE.replace("20_000", "40_000"))
        until_reported(live, reported, 1)
        watcher.close()
        live.report(1, acked=1)
    assert isinstance(reported[0][1], Reloaded)
    assert live.datapath.written[-1].cwnd_bytes == 40_000


def test_what_was_saved_between_import_and_watching_is_a_change(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", SOURCE, 1) as live:
        live.file.write_text(SOURCE.replace("20_000", "30_000"))
        watcher, reported = watching(live)
        until_reported(live, reported, 1)
        watcher.close()
        live.report(1, acked=1)
    assert live.datapath.written[-1].cwnd_bytes == 30_000


def test_touching_a_file_or_removing_it_briefly_does_nothing(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", SOURCE, 1) as live:
        watcher, reported = watching(live)
        os.utime(live.file, (1, 1))
        instance = live.instance()
        live.file.unlink()
        live.file.write_text(SOURCE.replace("20_000", "30_000"))
        until_reported(live, reported, 1)
        watcher.close()
        assert live.instance() is not instance
    assert len(reported) == 1


def test_file_that_was_emptied_is_about_to_be_written(tmp_path: Path) -> None:
    """Save as many editors do, with an interruption as on a busy machine."""
    with edited(tmp_path / "mine.py", SOURCE, 1) as live:
        until_looked = counting_looks(live)
        watcher, reported = watching(live)
        live.file.write_text("")
        until_looked(10)
        live.file.write_text(SOURCE.replace("20_000", "30_000"))
        until_reported(live, reported, 1)
        watcher.close()
    assert isinstance(reported[0][1], Reloaded)


def config_map(folder: Path, version: str, source: str) -> None:
    """Write a version of a ConfigMap as Kubernetes does: files are links into `..data`, which is replaced."""
    (folder / version).mkdir()
    (folder / version / "mine.py").write_text(source)
    os.utime(folder / version / "mine.py", (1, 1))
    (folder / "..tmp").symlink_to(version)
    os.replace(folder / "..tmp", folder / "..data")


def linked_file(folder: Path) -> Path:
    config_map(folder, "..v1", SOURCE)
    (folder / "mine.py").symlink_to("..data/mine.py")
    return folder / "mine.py"


def linked_directory(folder: Path) -> Path:
    config_map(folder, "..v1", SOURCE)
    (folder / "sub").mkdir()
    return folder / "sub" / ".." / "..data" / "mine.py"


@pytest.mark.parametrize("layout", [linked_file, linked_directory])
def test_directory_that_a_link_leads_to_is_replaced(layout: Callable[[Path], Path], tmp_path: Path) -> None:
    """The first version is deleted, and both have the same size and modification time."""
    with edited(layout(tmp_path), "", 1) as live:
        watcher, reported = watching(live)
        config_map(tmp_path, "..v2", SOURCE.replace("20_000", "30_000"))
        shutil.rmtree(tmp_path / "..v1")
        until_reported(live, reported, 1)
        live.report(1, acked=1)
        assert live.datapath.written[-1].cwnd_bytes == 30_000
        config_map(tmp_path, "..v3", SOURCE.replace("20_000", "40_000"))
        assert live.do(lambda: live.loader.reload("mine")).flows == 1
        watcher.close()
        live.report(1, acked=1)
        assert live.datapath.written[-1].cwnd_bytes == 40_000
    assert isinstance(reported[0][1], Reloaded)


def test_file_of_the_same_size_time_and_inode_is_another_version(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", SOURCE, 1) as live:
        watcher, reported = watching(live)
        before = live.file.stat()
        with live.file.open("r+") as file:
            file.write(SOURCE.replace("20_000", "30_000"))
        os.utime(live.file, ns=(before.st_atime_ns, before.st_mtime_ns))
        until_reported(live, reported, 1)
        watcher.close()
    assert isinstance(reported[0][1], Reloaded)


def test_linked_file_imports_from_both_directories(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "mine.py").write_text(HELPED.replace("import helper", "import helper, other"))
    (real / "helper.py").write_text(HELPER)
    (tmp_path / "other.py").write_text("")
    (tmp_path / "mine.py").symlink_to("real/mine.py")
    with edited(tmp_path / "mine.py", "", 1) as live:
        watcher, reported = watching(live)
        (real / "helper.py").write_text(HELPER.replace("20_000", "30_000"))
        until_reported(live, reported, 1)
        watcher.close()
        live.report(1, acked=1)
    assert live.datapath.written[-1].cwnd_bytes == 30_000


def removed(file: Path) -> None:
    file.unlink()


def replaced_where_it_is_mounted_from(file: Path) -> None:
    """A mounted file shows the old version, which has no name any more; so does a link to an open file."""
    with file.open() as opened:
        descriptor = os.dup(opened.fileno())
    file.unlink()
    file.symlink_to(f"/proc/self/fd/{descriptor}")


@pytest.mark.parametrize("vanish", [removed, replaced_where_it_is_mounted_from])
def test_file_that_vanishes_is_reported_once_and_watched_further(
    vanish: Callable[[Path], None], tmp_path: Path
) -> None:
    with edited(tmp_path / "mine.py", SOURCE, 1) as live:
        until_looked = counting_looks(live)
        watcher, reported = watching(live)
        vanish(live.file)
        until_reported(live, reported, 1)
        until_looked(3 * GONE_LOOKS)
        assert len(reported) == 1
        live.file.unlink(missing_ok=True)
        live.file.write_text(SOURCE.replace("20_000", "30_000"))
        until_reported(live, reported, 2)
        watcher.close()
    error = reported[0][1]
    assert isinstance(error, CcpError)
    assert error.slug == "reload.file_gone"
    assert isinstance(reported[1][1], Reloaded)


def test_nothing_to_watch_is_an_error(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", SOURCE) as live:
        live.load(SOURCE + "\n# text\n", "mine")
        with pytest.raises(UsageError) as caught:
            watching(live)
        assert caught.value.slug == "reload.no_file"


def test_file_that_cannot_be_read_is_reported_at_the_start(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", SOURCE) as live:
        live.file.unlink()
        with pytest.raises(UsageError) as caught:
            watching(live)
        assert caught.value.slug == "reload.not_readable"
