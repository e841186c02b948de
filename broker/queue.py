"""A bounded queue of messages that drops outdated messages first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class TopicQueue(Generic[T]):
    """A FIFO queue. If full, it drops a message that a later one on its topic supersedes, or else the oldest.

    Attributes:
        dropped: Messages dropped because the queue was full.
        replaced: Messages removed because a newer one made them obsolete.
    """

    def __init__(self, limit: int) -> None:
        """Create an empty queue for up to `limit` messages (at least 1)."""
        self.dropped = self.replaced = 0
        self._limit = limit
        self._number = count()
        self._messages: OrderedDict[int, tuple[Hashable, T]] = OrderedDict()
        self._newest: dict[Hashable, int] = {}
        self._outdated: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, topic: Hashable, message: T, *, only_last: bool = False) -> int:
        """Append a message; return how many messages were dropped to make room.

        Args:
            topic: The topic; its newest message is kept longest.
            message: The message.
            only_last: The message makes the previous one on its topic obsolete, which is removed.
        """
        before = self._newest.get(topic)
        if before is not None and only_last:
            self._remove(before)
            self.replaced += 1
        elif before is not None:
            self._outdated[before] = None
        number = next(self._number)
        self._messages[number] = (topic, message)
        self._newest[topic] = number
        return self._keep_within()

    def put_first(self, topic: Hashable, message: T) -> int:
        """Prepend a message that could not be sent or must be first; return the same as `put`."""
        number = next(self._number)
        self._messages[number] = (topic, message)
        self._messages.move_to_end(number, last=False)
        if topic in self._newest:
            self._outdated[number] = None
        else:
            self._newest[topic] = number
        return self._keep_within()

    def pop(self) -> T:
        """Remove the first message and return it.

        Raises:
            KeyError: If the queue is empty.
        """
        return self._remove(next(iter(self._messages), -1))

    def clear(self) -> list[T]:
        """Remove all messages and return them, in order."""
        messages = [message for _, message in self._messages.values()]
        self._messages.clear()
        self._newest.clear()
        self._outdated.clear()
        return messages

    def _keep_within(self) -> int:
        if len(self._messages) <= self._limit:
            return 0
        self._remove(next(iter(self._outdated or self._messages)))
        self.dropped += 1
        return 1

    def _remove(self, number: int) -> T:
        topic, message = self._messages.pop(number)
        self._outdated.pop(number, None)
        if self._newest.get(topic) == number:
            del self._newest[topic]
        return message
