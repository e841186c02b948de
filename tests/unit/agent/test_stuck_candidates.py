"""Candidates that do not end, block or crash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ccplane.agent.reload import Loader
from ccplane.agent.source import Source
from ccplane.base.errors import UsageError
from tests.unit.agent.live import FIRST, SECOND, edited, text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.py"


def test_loop_without_end_is_interrupted(file: Path) -> None:
    with edited(file, FIRST, 1) as live:
        live.loader.close()
        live.loader = Loader(live.agent_loop, live.loader._compile, prepare_s=2.0)
        live.loader.start()
        with pytest.raises(UsageError) as caught:
            live.save(FIRST + "\nwhile True:\n    pass\n")
        assert caught.value.slug == "reload.too_slow"
        assert live.save(SECOND).flows == 1


HOLDS_THE_LOCK = "re.match(r'(a+)+$', 'a' * 200 + 'b')"
"""A call of C code that does not end, during which no other thread of its process runs."""


@pytest.mark.parametrize(
    "source",
    [
        FIRST + f"\nimport re\n{HOLDS_THE_LOCK}\n",
        FIRST + "\nimport threading\nthreading.Event().wait()\n",
        text(f"def on_report(self, report):\n    import re\n    {HOLDS_THE_LOCK}\n"),
    ],
    ids=["import", "wait", "callback"],
)
def test_a_candidate_that_holds_the_interpreter_is_ended(file: Path, source: str) -> None:
    with edited(file, FIRST, 1) as live:
        live.loader.close()
        live.loader = Loader(live.agent_loop, live.loader._compile, prepare_s=2.0)
        live.loader.start()
        live.save(SECOND)
        with pytest.raises(UsageError) as caught:
            live.save(source)
        assert caught.value.slug == "reload.too_slow"
        live.do(lambda: live.loader.rollback("mine"))


def stuck_in_the_agent(how: str) -> str:
    """A source that passes the check in another process, and blocks in this one."""
    return f"{FIRST}\nimport os, threading\nif os.getpid() == {os.getpid()}:\n    {how}\n"


def test_an_import_that_blocks_in_the_agent_is_left_behind(file: Path) -> None:
    with edited(file, FIRST, 1) as live:
        live.loader.close()
        live.loader = Loader(live.agent_loop, live.loader._compile, prepare_s=1.0)
        live.loader.start()
        with pytest.raises(UsageError) as caught:
            live.save(stuck_in_the_agent("threading.Event().wait()"))
        assert caught.value.slug == "reload.too_slow"
        assert live.save(SECOND).flows == 1


def test_a_rollback_waits_for_no_candidate_which_then_changes_nothing(file: Path) -> None:
    with edited(file, FIRST, 1) as live:
        live.save(SECOND)
        live.loader.close()
        pasts, live.loader = live.loader.pasts, Loader(live.agent_loop, live.loader._compile, prepare_s=60.0)
        live.loader.pasts = pasts
        live.loader.start()
        go = file.parent / "go"
        file.write_text(
            stuck_in_the_agent(f"while not os.path.exists({str(go)!r}): threading.Event().wait(0.01)")
        )
        loading = live.loader.submit(lambda: live.loader.reload("mine"))
        waiting = live.loader.submit(lambda: live.loader.load(Source(SECOND, "<cell>"), "mine"))
        done = live.done(live.loader.submit(lambda: live.loader.rollback("mine"), overtakes=True))
        assert not loading.done()
        assert live.agent_loop.hosts["mine"].version.sha256 == done.new_sha256
        go.touch()
        for future in (loading, waiting):
            with pytest.raises(UsageError) as caught:
                live.done(future)
            assert caught.value.slug == "reload.rolled_back"
        assert live.agent_loop.hosts["mine"].version.sha256 == done.new_sha256
        assert live.save(SECOND).flows == 1


def test_a_candidate_that_crashes_does_not_end_the_agent(file: Path) -> None:
    with edited(file, FIRST, 1) as live:
        with pytest.raises(UsageError) as caught:
            live.save(FIRST + "\nimport ctypes\nctypes.string_at(0)\n")
        assert caught.value.slug == "reload.check_failed"
        assert "SIGSEGV" in caught.value.why
        assert live.save(SECOND).flows == 1
