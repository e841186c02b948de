"""The records of settings to restore: a program that runs as root follows no file of another user."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import msgspec
import pytest

from ccplane.agent.features.regime.settings import HostSettings
from ccplane.agent.runfile import RUN_DIR
from ccplane.base.errors import CcpError
from ccplane.base.private import ROOT_DIR
from experiments.runs import steering
from telemetry.inband.device import prepared
from telemetry.putback import keep, left_behind

ANOTHER = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


class Before(msgspec.Struct):
    mtu: int


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "records/eth0.json"


def test_a_record_is_read_again_by_the_next_program(record: Path) -> None:
    assert left_behind(record, Before) is None
    keep(record, Before(1500))
    keep(record, Before(1400))
    assert left_behind(record, Before) == Before(1400)
    assert record.parent.stat().st_mode & 0o777 == 0o700
    assert record.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in record.parent.iterdir()] == [record.name]


def test_a_program_killed_while_it_wrote_leaves_nothing_in_the_way(record: Path) -> None:
    keep(record, Before(1500))
    record.with_suffix(".new").write_text("half")
    keep(record, Before(1400))
    assert left_behind(record, Before) == Before(1400)
    record.write_text("half")
    assert left_behind(record, Before) is None


@pytest.mark.parametrize("suffix", [".json", ".new"])
def test_links_are_not_followed(record: Path, tmp_path: Path, suffix: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text('{"mtu": 68}')
    record.parent.mkdir(mode=0o700)
    record.with_suffix(suffix).symlink_to(victim)
    if suffix == ".json":
        with pytest.raises(CcpError, match=r"load\.not_private"):
            left_behind(record, Before)
    keep(record, Before(1500))
    assert victim.read_text() == '{"mtu": 68}'
    assert left_behind(record, Before) == Before(1500)


def test_a_fifo_does_not_block(record: Path) -> None:
    record.parent.mkdir(mode=0o700)
    os.mkfifo(record)
    with pytest.raises(CcpError, match="not a regular file"):
        left_behind(record, Before)


@needs_root
def test_a_record_of_another_user_is_refused(record: Path) -> None:
    keep(record, Before(1500))
    os.chown(record, ANOTHER, ANOTHER)
    with pytest.raises(CcpError, match=f"belongs to user {ANOTHER}"):
        left_behind(record, Before)


def prepare(record: Path, how: str) -> None:
    folder = record.parent
    if how == "link":
        (folder.parent / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(folder.parent / "elsewhere")
        return
    folder.mkdir()
    if how == "owner":
        os.chown(folder, ANOTHER, ANOTHER)
    else:
        folder.chmod(0o777)


@pytest.mark.parametrize("how", [pytest.param("owner", marks=needs_root), "mode", "link"])
def test_a_directory_that_others_can_write_is_refused(record: Path, how: str) -> None:
    prepare(record, how)
    for act in (lambda: keep(record, Before(1500)), lambda: left_behind(record, Before)):
        with pytest.raises(CcpError) as caught:
            act()
        assert caught.value.slug == "load.not_private"
        assert str(record.parent) in caught.value.where
    assert list(record.parent.iterdir()) == []


def test_the_records_of_root_are_outside_of_the_agents_directory() -> None:
    """`/run/ccplane` belongs to the agent's user."""
    assert ROOT_DIR.parent == RUN_DIR.parent != RUN_DIR
    for taker in (HostSettings, prepared):
        assert inspect.signature(taker).parameters["run_dir"].default == ROOT_DIR
    assert steering.LOCK.parent == ROOT_DIR
