"""Bounded queues: a full one drops outdated messages first, then messages of the sender with the most."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class TopicQueue(Generic[T]):
    """A FIFO queue.

    A full queue drops a message that a later message on its topic supersedes, or else the oldest message.

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

    def first(self) -> T | None:
        """Return the first message; None if the queue is empty."""
        for _, message in self._messages.values():
            return message
        return None

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

    def drop(self) -> int:
        """Drop a message as a full queue does; return 1. The queue must not be empty."""
        self._remove(next(iter(self._outdated or self._messages)))
        self.dropped += 1
        return 1

    def _keep_within(self) -> int:
        return self.drop() if len(self._messages) > self._limit else 0

    def _remove(self, number: int) -> T:
        topic, message = self._messages.pop(number)
        self._outdated.pop(number, None)
        if self._newest.get(topic) == number:
            del self._newest[topic]
        return message


class Shares:
    """Counts the entries of each sender, and finds a sender with many entries, in constant time."""

    def __init__(self) -> None:
        self.total = 0
        self._counts: dict[str, int] = {}
        self._largest = ""

    def add(self, sender: str, number: int = 1) -> None:
        """Add entries of a sender; a negative number removes entries."""
        self.total += number
        count = self._counts[sender] = self._counts.get(sender, 0) + number
        if not count:
            del self._counts[sender]
        elif count > self._counts.get(self._largest, 0):
            self._largest = sender

    def first_to_drop(self, otherwise: str) -> str:
        """Return the sender that loses an entry when there are too many.

        Args:
            otherwise: The sender if none is known to have more than one.
        """
        return self._largest if self._counts.get(self._largest, 0) > 1 else otherwise


class FairQueue(Generic[T]):
    """A queue per sender with one limit for all: one sender cannot displace the messages of another."""

    def __init__(self, limit: int) -> None:
        """Create an empty queue for up to `limit` messages (at least 1)."""
        self._limit = limit
        self._queues: OrderedDict[str, TopicQueue[T]] = OrderedDict()
        self._shares = Shares()

    def __len__(self) -> int:
        return self._shares.total

    def put(self, sender: str, topic: Hashable, message: T, *, only_last: bool = False) -> int:
        """Append a message of a sender; return how many messages were dropped to make room for it."""
        queue = self._queues.get(sender)
        if queue is None:
            queue = self._queues[sender] = TopicQueue(self._limit)
        before = len(queue)
        dropped = queue.put(topic, message, only_last=only_last)
        self._shares.add(sender, len(queue) - before)
        if len(self) > self._limit:
            other = self._shares.first_to_drop(next(iter(self._queues)))
            dropped += self._queues[other].drop()
            self._removed(other)
        return dropped

    def first(self, sender: str) -> T | None:
        """Return the first message of a sender, or None."""
        queue = self._queues.get(sender)
        return None if queue is None else queue.first()

    def pop(self, sender: str) -> T:
        """Remove the first message of a sender and return it.

        Raises:
            KeyError: If there is none.
        """
        message = self._queues[sender].pop()
        self._removed(sender)
        return message

    def clear(self) -> list[T]:
        """Remove all messages and return them, sender by sender."""
        messages = [message for queue in self._queues.values() for message in queue.clear()]
        self._queues.clear()
        self._shares = Shares()
        return messages

    def _removed(self, sender: str) -> None:
        self._shares.add(sender, -1)
        if not self._queues[sender]:
            del self._queues[sender]
