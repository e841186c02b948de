from __future__ import annotations

from pathlib import Path

import pytest

from ccplane.agent.description import Description, plan
from ccplane.agent.known_good import CONDEMNED, KnownGood
from ccplane.agent.source import Past, version_of
from ccplane.base.errors import CcpError, LoadError
from ccplane.datapath.ebpf import compile_program
from tests.unit.agent.canary.test_canaries import FIRST, SECOND
from tests.unit.agent.live import edited

BROKEN = FIRST.replace("self.n += 1", "self.n +=")


def kept(tmp_path: Path) -> KnownGood:
    return KnownGood(tmp_path / "kept", compile_program)


def started(tmp_path: Path, file: Path) -> str:
    (running,) = plan(Description([str(file)]), finds=kept(tmp_path).find).running
    assert running.name == "mine"
    return Past.of(running.algorithm, version_of(running.algorithm)).texts[str(file)]


def rolled_back(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    with edited(file, FIRST, 1) as live:
        live.loader.judged = kept(tmp_path).judged
        live.save(SECOND)
        live.do(lambda: live.loader.rollback("mine"))
    return file


def test_without_a_record_the_file_counts(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SECOND)
    assert started(tmp_path, file) == SECOND
    file.write_text(BROKEN)
    with pytest.raises(CcpError):
        started(tmp_path, file)


def test_a_version_that_was_rolled_back_does_not_start_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = rolled_back(tmp_path)
    assert file.read_text() == SECOND
    assert started(tmp_path, file) == FIRST
    assert "this version was taken back" in caplog.text


def test_a_file_that_does_not_load_is_replaced_by_what_was_good(tmp_path: Path) -> None:
    file = rolled_back(tmp_path)
    file.write_text(BROKEN)
    assert started(tmp_path, file) == FIRST


def test_another_version_of_the_file_starts(tmp_path: Path) -> None:
    file = rolled_back(tmp_path)
    third = FIRST.replace("10_000", "30_000")
    file.write_text(third)
    assert started(tmp_path, file) == third


def test_what_runs_is_kept_when_an_edit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    with edited(file, FIRST, 1) as live:
        live.loader.judged = kept(tmp_path).judged
        with pytest.raises(CcpError):
            live.save(BROKEN)
    assert started(tmp_path, file) == FIRST


def test_modules_alongside_it_are_kept(tmp_path: Path) -> None:
    file, helper = tmp_path / "mine.py", tmp_path / "helper.py"
    helper.write_text("MORE = 1\n")
    source = "import helper\n" + FIRST.replace("10_000", "helper.MORE")
    with edited(file, source, 1) as live:
        live.loader.judged = kept(tmp_path).judged
        helper.write_text("MORE = \n")
        with pytest.raises(CcpError):
            live.save(source + "\n")
    assert started(tmp_path, file) == source


def test_condemned_hashes_are_bounded_and_a_good_one_is_none(tmp_path: Path) -> None:
    keeper, past = kept(tmp_path), Past(None, "/mine.py", "Mine", "good", {"/mine.py": FIRST})
    for n in range(2 * CONDEMNED):
        keeper.judged("mine", past, f"{n}")
    keeper.judged("mine", past, "good")
    record = keeper.record("/mine.py")
    assert record is not None
    assert record.condemned == [f"{n}" for n in range(CONDEMNED, 2 * CONDEMNED)]
    keeper.judged("mine", Past(None, "/mine.py", "Mine", "150", past.texts), "")
    record = keeper.record("/mine.py")
    assert record is not None
    assert "150" not in record.condemned


def test_what_has_no_file_is_not_kept(tmp_path: Path) -> None:
    kept(tmp_path).judged("mine", Past(None, "<cell>", "Mine", "1", {"<cell>": FIRST}), "2")
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_record_that_cannot_be_read_does_not_count(tmp_path: Path) -> None:
    file = rolled_back(tmp_path)
    (place,) = (tmp_path / "kept").iterdir()
    place.write_text("{")
    assert started(tmp_path, file) == SECOND


def test_a_directory_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    with pytest.raises(LoadError) as caught:
        kept(tmp_path)
    assert caught.value.slug == "known_good.cannot_write"
