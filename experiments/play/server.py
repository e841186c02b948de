"""`ccp play --browser`: the page, and its messages, from a web server of this machine only.

The page is `experiments/play/web/`. From `connection.json`, which exists only here, it learns where messages
are: `events` is a stream of server-sent events, `messages` takes JSON objects by POST. A new stream begins
with the state, all samples and marks so far, and the source of the algorithm (`{"type": "source", "text"}`);
the source also follows each save.

The address contains a random token. Nothing is reachable without it, so other users of the machine and pages
of other sites cannot use the server.
"""

from __future__ import annotations

import hmac
import mimetypes
import queue
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import msgspec

from ccplane.agent import panel
from ccplane.base.errors import LoadError
from experiments.play.history import History
from experiments.play.messages import Message

WEB: Final = Path(__file__).parent / "web"
"""The page."""

SHARED: Final = {"uplot": Path(panel.__file__).parent / "front/uplot"}
"""Folders below the page that are elsewhere: name -> folder."""

HOST: Final = "127.0.0.1"

MAX_BODY_BYTES: Final = 1 << 20
"""Maximum size of a message from a page."""

KEEPALIVE_S: Final = 10.0
"""Time without a message after which a stream gets an empty comment [s]."""

MAX_WAITING: Final = 1000
"""Maximum messages that wait for a slow page; then its stream ends, and it connects again."""

_CONNECTION: Final = {"events": "events", "messages": "messages"}
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Content-Type-Options": "nosniff",
}


def must_have_page(web: Path = WEB) -> None:
    """Check that there is a page.

    Raises:
        LoadError: `play.no_page`.
    """
    if not (web / "index.html").is_file():
        raise LoadError(
            "play.no_page",
            "this installation lacks the page of `ccp play --browser`",
            where=str(web),
            fix="leave out --browser: the terminal shows the same curves",
        )


class Browser:
    """A display for any number of pages.

    Attributes:
        url: Address of the page.
    """

    def __init__(self, history: History, source: Callable[[], str], web: Path = WEB) -> None:
        """Listen; `serving` then serves.

        Args:
            history: The messages so far; it is updated.
            source: Returns the current source of the algorithm; called on the thread that shows messages.
            web: Folder of the page.

        Raises:
            LoadError: `play.no_page`.
        """
        must_have_page(web)
        self._history = history
        self._source = source
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._pages: list[queue.Queue[Message | None]] = []
        self._lock = threading.Lock()
        self._text = source()
        token = secrets.token_urlsafe(24)
        self._server = _Server(web.resolve(), token, self)
        self.url = f"http://{HOST}:{self._server.server_port}/{token}/"

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve for a `with` block."""
        thread = threading.Thread(target=self._server.serve_forever, name="ccp-play-http", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._lock:
                for page in self._pages:
                    _end(page)
            self._server.shutdown()
            self._server.server_close()

    # The display

    def wait(self, timeout_s: float) -> list[Message] | None:
        """Wait for messages of pages."""
        try:
            asked = [self._inbox.get(timeout=timeout_s)]
        except queue.Empty:
            return []
        while not self._inbox.empty():
            asked.append(self._inbox.get())
        return asked

    def show(self, messages: Iterable[Message]) -> None:
        """Send messages to all pages."""
        said = list(messages)
        if any(one["type"] == "mark" and one["kind"] == "save" for one in said):
            self._text = self._source()
            said.append(self._source_message())
        with self._lock:
            self._history.take(said)
            for page in self._pages:
                if page.qsize() > MAX_WAITING:
                    _end(page)
                for message in said:
                    page.put(message)

    # The threads of requests

    def received(self, message: Message) -> None:
        """Take a message of a page."""
        self._inbox.put(message)

    @contextmanager
    def joined(self) -> Iterator[queue.Queue[Message | None]]:
        """Add a page for a `with` block; None in its queue ends its stream."""
        page: queue.Queue[Message | None] = queue.Queue()
        with self._lock:
            for message in [*self._history.messages(), self._source_message()]:
                page.put(message)
            self._pages.append(page)
        try:
            yield page
        finally:
            with self._lock:
                self._pages.remove(page)

    def _source_message(self) -> Message:
        return {"type": "source", "text": self._text}


def _end(page: queue.Queue[Message | None]) -> None:
    """End a stream before what waits in it."""
    with page.mutex:
        page.queue.clear()
    page.put(None)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, web: Path, token: str, browser: Browser) -> None:
        super().__init__((HOST, 0), _Handler)
        self.web = web
        self.token = token
        self.browser = browser


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        name = self._name()
        if name is None:
            self._answer(HTTPStatus.NOT_FOUND)
        elif name == "connection.json":
            self._answer(HTTPStatus.OK, msgspec.json.encode(_CONNECTION), "application/json")
        elif name == _CONNECTION["events"]:
            self._stream()
        else:
            self._file(name or "index.html")

    def do_POST(self) -> None:
        if self._name() != _CONNECTION["messages"]:
            self._answer(HTTPStatus.NOT_FOUND)
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        try:
            message = msgspec.json.decode(self.rfile.read(int(length)), type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError):
            self._answer(HTTPStatus.BAD_REQUEST)
            return
        self.server.browser.received(message)
        self._answer(HTTPStatus.NO_CONTENT)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal is the user's."""

    def _name(self) -> str | None:
        """Return the path below the token; None if the token or the host is wrong."""
        _, token, *rest = self.path.partition("?")[0].split("/", 2)
        host = self.headers.get("Host", "").rpartition(":")[0]
        if not rest or host not in (HOST, "localhost"):
            return None
        known = hmac.compare_digest(token.encode(), self.server.token.encode())
        return rest[0] if known else None

    def _file(self, name: str) -> None:
        first, _, rest = name.partition("/")
        folder, inside = (SHARED[first], rest) if first in SHARED else (self.server.web, name)
        path = (folder / inside).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            self._answer(HTTPStatus.NOT_FOUND)
            return
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self._answer(HTTPStatus.OK, path.read_bytes(), kind)

    def _answer(self, status: HTTPStatus, body: bytes = b"", kind: str = "text/plain") -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        self.send_response(HTTPStatus.OK)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with self.server.browser.joined() as page:
            try:
                while True:
                    try:
                        message = page.get(timeout=KEEPALIVE_S)
                    except queue.Empty:
                        self.wfile.write(b":\n\n")
                        continue
                    if message is None:
                        return
                    self.wfile.write(b"data: " + msgspec.json.encode(message) + b"\n\n")
            except OSError:  # the page was closed
                return
