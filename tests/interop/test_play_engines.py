"""The page's side of the simulator's worker, in Chromium, with a worker and a clock of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.play.server import WEB

ADDRESS = "http://page.test/"
START = """async () => {
  window.nowS = 0;
  performance.now = () => 1000 * nowS;
  window.setInterval = () => 0;
  window.workers = [];
  window.Worker = class {
    constructor() { this.got = []; this.isEnded = false; workers.push(this); }
    postMessage(message) { this.got.push(message); }
    terminate() { this.isEnded = true; }
    say(...messages) { for (const data of messages) this.onmessage({ data }); }
  };
  const { Simulator } = await import("./engines.js");
  window.simulator = new Simulator({ worker: "worker.js" });
  window.hung = [];
  simulator.listen((message) => {
    if (message.type !== "hung") return;
    hung.push(message);
    if (message.source !== null) simulator.begin({}, message.source, {}, 1);
  });
  window.worker = () => workers.at(-1);
  window.pass = (seconds) => { nowS += seconds; simulator.watch(); };
}"""


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context()
    page = context.new_page()

    def answer(route: Any) -> None:
        name = Path(route.request.url.removeprefix(ADDRESS)).name
        if name:
            route.fulfill(path=WEB / name)
        else:
            route.fulfill(body="<!doctype html>", content_type="text/html")

    page.route(f"{ADDRESS}**", answer)
    page.goto(ADDRESS)
    page.evaluate(START)
    yield page
    context.close()


def begun(page: Any, source: str) -> None:
    """Let the worker begin with a source, without any time passing."""
    page.evaluate("worker().say({ type: 'ready' })")
    page.evaluate("(source) => simulator.begin({}, source, {}, 1)", source)
    page.evaluate("worker().say({ type: 'accepted' }, { type: 'begun' })")


def test_a_first_version_begins_again_with_more_time_until_it_is_fast_enough(page: Any) -> None:
    page.evaluate("simulator.begin({}, 'first', {}, 1)")
    needed_s = 200
    waited: list[int] = []
    while True:
        page.evaluate("worker().say({ type: 'ready' })")
        assert page.evaluate("worker().got.flatMap((one) => one.source ?? [])") == ["first"]
        workers = page.evaluate("workers.length")
        page.evaluate("pass(0)")  # asks for a sign of life
        passed_s = 0
        while page.evaluate("workers.length") == workers and passed_s < needed_s:
            page.evaluate("pass(1)")
            passed_s += 1
        if passed_s == needed_s:
            break
        waited.append(passed_s - 1)
        assert page.evaluate("hung.at(-1)") == {"type": "hung", "source": "first", "waitedS": waited[-1]}
    assert waited == [30, 60, 120]
    page.evaluate("worker().say({ type: 'accepted' }, { type: 'begun' }, { type: 'pong' })")
    assert page.evaluate("simulator.versions") == ["first"]


def test_a_version_that_hangs_is_replaced_by_the_version_before(page: Any) -> None:
    begun(page, "good")
    page.evaluate("pass(0); worker().say({ type: 'pong' }); pass(0)")
    page.evaluate("simulator.send({ type: 'edit', source: 'endless' })")
    page.evaluate("pass(5)")
    assert page.evaluate("hung") == []
    page.evaluate("pass(2)")
    assert page.evaluate("hung") == [{"type": "hung", "source": "good"}]
    assert page.evaluate("workers.map((one) => one.isEnded)") == [True, False]


def test_a_running_version_has_a_multiple_of_the_time_of_the_slowest_answer(page: Any) -> None:
    begun(page, "first")
    page.evaluate("pass(0); pass(5); worker().say({ type: 'pong' }); pass(0)")
    page.evaluate("pass(19)")
    assert page.evaluate("hung") == []
    page.evaluate("pass(2)")
    assert page.evaluate("hung") == [{"type": "hung", "source": None}]
