"""A pytest plugin: keeps failed and slow tests in files, for `scripts.flaky` to run again and to list.

The environment variable `CCPLANE_OUTCOMES` names the folder; without it, nothing is kept. A run in which
tests failed, and nothing else went wrong, then ends with status 0: `python -m scripts.flaky settle` runs each
failed test again, alone, and decides.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.flaky import Failure, add_failure, add_slow
from tests.lent import TEST

SLOW_S = 5.0
"""Tests that take longer than this [s] are listed."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep outcomes if that is asked for; those of workers of pytest-xdist are kept by their controller."""
    folder = os.environ.get("CCPLANE_OUTCOMES")
    if folder and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Outcomes(Path(folder)))


class _Outcomes:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._others = False

    def pytest_runtest_logstart(self) -> None:
        TEST.begin()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.duration >= SLOW_S:
            add_slow(self._folder, report.nodeid, report.duration)
        if report.failed:
            add_failure(
                self._folder,
                Failure(
                    test=report.nodeid,
                    again=["pytest", report.nodeid],
                    message=_message(report),
                    seed=f"PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED', 'random')}",
                    host_took=TEST.share,
                ),
            )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._others |= report.failed

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.TESTS_FAILED and not self._others:
            session.exitstatus = pytest.ExitCode.OK


def _message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr)
    return f"{report.when}: {text.strip().splitlines()[0] if text.strip() else 'no message'}"
