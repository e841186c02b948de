"""Messages that an agent sends to its clients: `Client.stream`."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import msgspec
import zmq

from ccplane.base.decoding import UNREADABLE
from ccplane.base.errors import LoadError

Row = dict[str, Any]


def bad_answer(address: str, error: Exception) -> LoadError:
    """Return the error of an answer that cannot be read."""
    what = "the answer is not that of an agent of this version"
    fix = "use the client of the agent's version, and check the address"
    return LoadError("control.bad_answer", what, address, str(error), fix)


class Stream:
    """Messages of the agent; an iterator, and a context manager.

    Attributes:
        dropped: Number of messages lost because this client read too slowly.
    """

    def __init__(self, socket: zmq.Socket[bytes], topics: list[str], timeout_s: float | None) -> None:
        self.dropped = 0
        self._socket = socket
        self._timeout_s = timeout_s
        self._last: dict[bytes, int] = {}
        for topic in topics:
            socket.setsockopt(zmq.SUBSCRIBE, topic.encode())

    def __iter__(self) -> Iterator[Row]:
        while (row := self.next(self._timeout_s)) is not None:
            yield row

    def next(self, timeout_s: float | None = None) -> Row | None:
        """Return the next message, None after the timeout.

        Args:
            timeout_s: Timeout [s]; 0 does not wait, None waits indefinitely.

        Raises:
            LoadError: `control.bad_answer`.
        """
        if not self._socket.poll(None if timeout_s is None else round(1000 * timeout_s)):
            return None
        frames = self._socket.recv_multipart()
        try:
            topic, text = frames
            row: Row = msgspec.json.decode(text, type=dict[str, Any])
            number = int(row.pop("number"))
            row["stream"] = topic.partition(b"/")[0].decode()
        except (*UNREADABLE, KeyError, TypeError) as error:
            place = self._socket.getsockopt(zmq.LAST_ENDPOINT)
            raise bad_answer(place.decode() if isinstance(place, bytes) else "", error) from None
        # A lower number means that another client subscribed or left, which restarts the count.
        self.dropped += max(0, number - self._last.get(topic, number) - 1)
        self._last[topic] = number
        return row

    def ready(self) -> list[Row]:
        """Return all waiting messages; does not wait."""
        rows = []
        while (row := self.next(0)) is not None:
            rows.append(row)
        return rows

    def close(self) -> None:
        """Unsubscribe."""
        self._socket.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
