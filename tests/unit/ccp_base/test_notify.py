from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ccplane.base.notify import FEEDS_A_TIMEOUT, STATUS_S, Manager, Supervised, fed
from tests.service_manager import ServiceManager
from tests.waiting import Clock


@pytest.mark.parametrize("abstract", [False, True])
def test_a_loop_reports_that_it_is_ready_goes_round_and_ends(tmp_path: Path, abstract: bool) -> None:
    place = f"@ccplane-test-{os.getpid()}" if abstract else tmp_path / "notify"
    clock = Clock(100.0)
    with ServiceManager(place, watchdog_s=8.0) as systemd:
        manager = Manager.from_environment(systemd.environment.copy())
        assert manager is not None
        loop = Supervised(manager, lambda: "3 flows", clock)
        assert systemd.listen() == []
        loop.turn()
        assert systemd.listen() == [{"READY": "1"}, {"WATCHDOG": "1"}, {"STATUS": "3 flows"}]
        loop.turn()
        assert systemd.listen() == []
        clock.now_s += 8.0 / FEEDS_A_TIMEOUT
        loop.feed()
        assert systemd.listen() == [{"WATCHDOG": "1"}]
        clock.now_s += STATUS_S
        loop.turn()
        assert systemd.listen() == [{"WATCHDOG": "1"}, {"STATUS": "3 flows"}]
        loop.stopping()
        assert systemd.listen() == [{"STOPPING": "1"}]


def test_without_a_manager_there_is_none_to_report() -> None:
    assert Manager.from_environment({}) is None


def test_what_is_run_from_here_finds_no_manager(tmp_path: Path) -> None:
    with ServiceManager(tmp_path / "notify", watchdog_s=1.0) as systemd:
        environment = {**systemd.environment, "WATCHDOG_PID": str(os.getpid()), "OTHER": "1"}
        manager = Manager.from_environment(environment)
        assert manager is not None
        assert manager.watchdog_s == 1.0
        manager.close()
        assert environment == {"OTHER": "1"}


def test_the_watchdog_of_another_process_is_not_fed(tmp_path: Path) -> None:
    with ServiceManager(tmp_path / "notify", watchdog_s=1.0) as systemd:
        manager = Manager.from_environment({**systemd.environment, "WATCHDOG_PID": "1"})
        assert manager is not None
        loop = Supervised(manager, lambda: "")
        loop.turn()
        loop.stopping()
        assert [*map(set, systemd.listen())] == [{"READY"}, {"STATUS"}, {"STOPPING"}]


def test_a_manager_that_is_gone_or_busy_holds_none_up(tmp_path: Path) -> None:
    clock = Clock(100.0)
    with ServiceManager(tmp_path / "notify", watchdog_s=1.0) as systemd:
        manager = Manager.from_environment(systemd.environment.copy())
        assert manager is not None
        loop = Supervised(manager, lambda: "", clock)
        taken = 0
        while manager.emit(STATUS="x"):  # until its queue is full
            taken += 1
        loop.turn()
        assert [*map(set, systemd.listen())] == taken * [{"STATUS"}]
        loop.turn()  # at the next turn what was not taken is told again
        assert [set(one) for one in systemd.listen()][:2] == [{"READY"}, {"WATCHDOG"}]
    clock.now_s += 10.0
    loop.turn()
    loop.stopping()


def test_a_process_that_continues_the_work_is_named_to_a_busy_manager(tmp_path: Path) -> None:
    with ServiceManager(tmp_path / "notify", watchdog_s=1.5) as systemd, ThreadPoolExecutor() as pool:
        manager = Manager.from_environment(systemd.environment.copy())
        assert manager is not None
        assert manager.environment() == systemd.environment
        while manager.emit(STATUS="x"):  # until its queue is full
            pass
        named = pool.submit(manager.hand_over, 4711)
        while {"MAINPID": "4711", "WATCHDOG": "1"} not in systemd.listen(0.01):
            pass
        named.result(10)
        manager.close()


def test_the_watchdog_is_fed_during_a_block(tmp_path: Path) -> None:
    with ServiceManager(tmp_path / "notify", watchdog_s=0.04) as systemd:
        manager = Manager.from_environment(systemd.environment.copy())
        assert manager is not None
        with fed(manager):
            while len(systemd.listen(0.1)) < 2:
                pass
        manager.close()
