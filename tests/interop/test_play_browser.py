"""The page of `ccp play --browser` in Chromium."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from experiments.play.history import History
from experiments.play.play import carry
from experiments.play.player import SimPlayer
from experiments.play.server import Browser
from experiments.play.session import Session, Setting

AIMD = Path("ccp_algs/example_aimd.py").read_text()
LONG_MS = 120_000  # a busy machine


@pytest.fixture
def player() -> Iterator[SimPlayer]:
    with closing(SimPlayer(Session(Setting(), AIMD))) as made:
        yield made


@pytest.fixture
def page(browser: Any, player: SimPlayer) -> Iterator[Any]:
    history = History()
    history.take([player.state()])
    display = Browser(history, player.source)
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(LONG_MS)
    with display.serving():
        ended = threading.Event()
        show = display.wait
        display.wait = lambda timeout_s: None if ended.is_set() else show(timeout_s)  # type: ignore[method-assign]
        carrying = threading.Thread(target=carry, args=(player, display))
        carrying.start()
        page.goto(display.url)
        yield page
        context.close()
        ended.set()
        carrying.join()


def test_parameters_and_errors_are_visible(page: Any) -> None:
    page.wait_for_selector("#now td")
    assert page.locator("#params input").first.is_visible()
    assert not page.locator("#error").is_visible()
    wrong = {"type": "edit", "source": f"{AIMD}no"}
    page.evaluate("(wrong) => fetch('messages', {method: 'POST', body: JSON.stringify(wrong)})", wrong)
    page.wait_for_function("() => document.querySelector('#error').textContent.includes('no')")
    assert page.locator("#error").is_visible()
