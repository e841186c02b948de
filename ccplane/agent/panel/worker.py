"""Executes the user's requests on a separate thread, as loading is slow and must not block a notebook."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ccplane.agent.panel.feed import Feed
from ccplane.agent.panel.state import plain_errors
from ccplane.base.errors import CcpError

if TYPE_CHECKING:
    from ccplane.agent.client import Client

Row = dict[str, Any]


class Worker:
    """Executes requests of the front end one by one."""

    def __init__(self, client: Client, feed: Feed, flow: int | None) -> None:
        self._client = client
        self._feed = feed
        self._flow = flow
        self._do: Mapping[str, Callable[[Row], Any]] = {
            "set": self._set,
            "source": lambda asked: client.source(asked["algorithm"]),
            "check": lambda asked: client.check(asked["text"], asked["algorithm"] or None),
            "load": lambda asked: client.load(asked["text"], asked["algorithm"] or None),
            "switch": lambda asked: client.switch(asked["algorithm"], flow=flow),
        }
        self._jobs: SimpleQueue[Row | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._work,), name="ccp-panel-worker", daemon=True
        )
        self._thread.start()

    def knows(self, what: str) -> bool:
        """Return whether the request exists."""
        return what in self._do

    def submit(self, asked: Row) -> None:
        """Queue a request: `do` is its name, `id` is repeated in the answer."""
        self._jobs.put(asked)

    def close(self) -> None:
        """Stop after the current request."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (asked := self._jobs.get()) is not None:
            answer: Row = {"kind": "answer", "id": asked.get("id"), "do": asked["do"]}
            try:
                answer["ok"] = self._do[asked["do"]](asked)
            except CcpError as error:
                answer["errors"] = plain_errors(error)
            self._feed.emit(answer)
        self._client.close()

    def _set(self, asked: Row) -> int:
        return self._client.set({asked["name"]: asked["value"]}, flow=self._flow)
