"""The playground of `make playground` in Chromium, served by a plain file server."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from experiments.play.session import Session, Setting

PLAYGROUND = Path(__file__).parents[2] / "out/playground"
CHROMIUM = shutil.which("chromium")
LONG_MS = 120_000  # a busy machine

pytestmark = [
    pytest.mark.skipif(not (PLAYGROUND / "connection.json").is_file(), reason="needs `make playground`"),
    pytest.mark.skipif(CHROMIUM is None, reason="needs `make setup`"),
    pytest.mark.timeout(600),
]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=PLAYGROUND)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs `make setup`")
    with playwright.sync_playwright() as one:
        browser = one.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page whose requests to other servers, and errors, fail the test."""
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    page.set_default_timeout(LONG_MS)
    mistakes: list[str] = []
    page.on("pageerror", lambda error: mistakes.append(str(error)))
    known = (address, "data:")
    page.on("request", lambda request: request.url.startswith(known) or mistakes.append(request.url))
    yield page
    context.close()
    assert mistakes == []


def open_at(page: Any, address: str, **fragment: object) -> None:
    page.goto(f"{address}#{urlencode(fragment)}")


def wait_for_samples(page: Any) -> None:
    page.wait_for_selector("#now td")


def wait_for_text(page: Any, selector: str, text: str) -> None:
    contains = "([selector, text]) => document.querySelector(selector).textContent.includes(text)"
    page.wait_for_function(contains, arg=[selector, text])


def write(page: Any, source: str) -> None:
    """Replace the editor's text, and run it."""
    page.click(".cm-content")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(source)
    page.click("#run:enabled")


def source_of(name: str) -> str:
    return str(json.loads((PLAYGROUND / "algorithms.json").read_text())[name])


@pytest.mark.parametrize("name", ["aimd", "cubic", "lt_cubic", "bbr3", "empty"])
def test_a_link_shows_what_the_native_simulator_computes(page: Any, address: str, name: str) -> None:
    fields = {"rate_bytes_per_s": 2.5e6, "rtt_us": 30_000, "loss": 0.01, "seed": 7, "duration_s": 2.0}
    native = Session(Setting.of(fields | {"against": "kernel/cubic"}), source_of(name))
    native.advance(2.0)
    open_at(page, address, **fields, against="kernel/cubic", algorithm=name)
    wait_for_text(page, "#status", "ended at 2.0 s")
    assert page.get_attribute("#status", "data-digest") == native.digest
    assert page.locator("#now tr").count() == 2


def test_an_edit_that_raises_is_shown_with_its_line_until_it_is_mended(page: Any, address: str) -> None:
    open_at(page, address, algorithm="aimd")
    wait_for_samples(page)
    write(page, source_of("aimd").replace("        self.cwnd_bytes = cwnd\n", "        1 / 0\n"))
    wait_for_text(page, "#error", "ZeroDivisionError")
    assert page.locator("#error").is_visible()
    assert "1 / 0" in page.text_content(".cm-bad-line")
    write(page, source_of("aimd").replace("Param(0.5", "Param(0.7"))
    wait_for_text(page, "#marks", "saved")
    page.wait_for_function("() => document.querySelector('#error').hidden")


def test_an_endless_loop_ends_the_worker_and_the_version_before_begins_again(page: Any, address: str) -> None:
    open_at(page, address, algorithm="empty")
    wait_for_samples(page)
    setting = "        self.flow.set(cwnd_bytes=self.window_pkts * self.flow"
    looping = source_of("empty").replace(setting, f"        while True:\n            pass\n{setting}")
    assert "while True" in looping
    write(page, looping)
    wait_for_text(page, "#error", "endless loop")
    wait_for_text(page, "#error", "version before runs again")
    wait_for_samples(page)
    assert "while True" in page.evaluate("document.querySelector('.cm-content').innerText")


def test_a_copied_link_has_the_edited_source_parameters_and_path(page: Any, address: str) -> None:
    open_at(page, address, algorithm="aimd", duration_s=1.0)
    wait_for_text(page, "#status", "ended")
    edited = source_of("aimd").replace('"aimd"', '"other"')
    write(page, edited)
    wait_for_text(page, "#marks", "saved")
    page.fill("#params input >> nth=1", "0.6")
    page.press("#params input >> nth=1", "Enter")
    page.wait_for_selector("#copy:enabled")
    page.click("#copy")
    page.wait_for_function("() => location.hash.includes('p.decrease=0.6')")
    assert "source=" in page.url
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    wait_for_text(page, "#status", "other ended at 1.0 s")
    native = Session(Setting(duration_s=1.0), edited, params={"decrease": 0.6})
    native.advance(1.0)
    assert page.get_attribute("#status", "data-digest") == native.digest
