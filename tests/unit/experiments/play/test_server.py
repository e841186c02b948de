import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from ccplane.base.errors import CcpError
from experiments.play.command import app
from experiments.play.history import History
from experiments.play.messages import Message
from experiments.play.play import carry
from experiments.play.player import SimPlayer
from experiments.play.server import MAX_BODY_BYTES, Browser
from experiments.play.session import Session, Setting

AIMD = Path("ccp_algs/example_aimd.py").read_text()


@pytest.fixture
def web(tmp_path: Path) -> Path:
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / "index.html").write_text("<p>page</p>")
    (folder / "page.js").write_text("'use strict'")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


class Page:
    """A page that is connected to a server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port, self.root = str(parts.hostname), int(parts.port or 0), parts.path
        self.stream = http.client.HTTPConnection(self.host, self.port, timeout=60)

    def request(self, method: str, path: str, body: bytes | None = None, host: str = "") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        headers = {"Host": host} if host else {}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def send(self, message: Message) -> None:
        body = json.dumps(message).encode()
        assert self.request("POST", self.root + "messages", body)[0] == 204

    def events(self) -> Iterator[Message]:
        self.stream.request("GET", self.root + "events")
        answer = self.stream.getresponse()
        assert answer.headers["Content-Type"] == "text/event-stream"
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


@pytest.fixture
def page(web: Path) -> Iterator[Page]:
    session = Session(Setting(duration_s=60, against="kernel/cubic"), AIMD)
    player = SimPlayer(session)
    history = History()
    history.take([session.state()])
    browser = Browser(history, player.source, web)
    end = threading.Event()

    class UntilEnd(Browser):
        def __init__(self) -> None:
            pass

        def wait(self, timeout_s: float) -> list[Message] | None:
            return None if end.is_set() else browser.wait(timeout_s)

        def show(self, messages: object) -> None:
            browser.show(messages)  # type: ignore[arg-type]

    playing = threading.Thread(target=carry, args=(player, UntilEnd()))
    with browser.serving():
        playing.start()
        made = Page(browser.url)
        try:
            yield made
        finally:
            end.set()
            playing.join()
            player.close()
            made.stream.close()


def first(events: Iterator[Message], kind: str) -> Message:
    return next(event for event in events if event["type"] == kind)


def test_files_are_served_below_the_token(page: Page) -> None:
    assert page.request("GET", page.root) == (200, b"<p>page</p>")
    assert page.request("GET", page.root + "page.js") == (200, b"'use strict'")
    assert page.request("GET", page.root + "uplot/uPlot.iife.min.js")[1].startswith(b"/*!")
    status, body = page.request("GET", page.root + "connection.json")
    assert (status, json.loads(body)) == (200, {"events": "events", "messages": "messages"})


@pytest.mark.parametrize(
    "path", ["/", "/page.js", "/events", "/wrong/", "/wrong/events", "/wrong/index.html"]
)
def test_nothing_is_served_without_the_token(page: Page, path: str) -> None:
    assert page.request("GET", path)[0] == 404
    assert page.request("POST", path, b"{}")[0] == 404


def test_nothing_is_served_to_other_names_or_outside_of_the_folder(page: Page) -> None:
    assert page.request("GET", page.root, host="example.org:80")[0] == 404
    for path in ("../secret.txt", "%2e%2e/secret.txt", "uplot/../widget.js", "/etc/passwd", "absent.js"):
        assert page.request("GET", page.root + path)[0] == 404


def test_wrong_messages_are_refused(page: Page) -> None:
    for body, status in (
        (b"{", 400),
        (b"[]", 400),
        (b"[" * 100_000, 400),
        (b" " * (MAX_BODY_BYTES + 1), 413),
    ):
        try:
            assert page.request("POST", page.root + "messages", body)[0] == status
        except (BrokenPipeError, ConnectionResetError):
            assert status == 413  # the server closes before it has read all


def test_a_page_gets_what_happens_and_changes_it(page: Page) -> None:
    events = page.events()
    assert next(events)["datapath"] == "sim"
    assert first(events, "source")["text"] == AIMD
    samples = first(events, "samples")
    assert [flow["name"] for flow in samples["flows"]] == ["aimd", "kernel/cubic"]
    page.send({"type": "param", "name": "decrease", "value": 0.7})
    assert first(events, "mark")["text"] == "decrease=0.7"
    page.send({"type": "edit", "source": AIMD + "\n"})
    assert first(events, "mark")["kind"] == "save"
    assert first(events, "source")["text"] == AIMD + "\n"
    page.send({"type": "nothing"})
    assert first(events, "error")["text"].startswith("play.bad_message")


def test_a_page_that_is_opened_later_gets_all_samples(page: Page) -> None:
    events = page.events()
    for _ in range(5):
        first(events, "samples")
    page.send({"type": "path", "rate_bytes_per_s": 1e6})
    at_s = first(events, "mark")["t_s"]
    page.stream.close()
    page.stream = http.client.HTTPConnection(page.host, page.port, timeout=60)
    events = page.events()
    samples = first(events, "samples")
    assert samples["t_s"][0] == 0.05
    assert samples["t_s"][-1] >= at_s
    assert first(events, "mark")["t_s"] == at_s


def test_an_installation_without_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CcpError, match=r"play\.no_page"):
        Browser(History(), str, tmp_path)
    monkeypatch.setattr("experiments.play.server.must_have_page.__defaults__", (tmp_path,))
    (tmp_path / "mine.py").write_text(AIMD)
    result = CliRunner().invoke(app, [str(tmp_path / "mine.py"), "--sim", "--browser", "-t", "1"])
    assert isinstance(result.exception, CcpError)
    assert result.exception.slug == "play.no_page"
