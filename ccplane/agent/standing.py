"""Decisions in force, for flows that start later."""

from __future__ import annotations

from typing import Final

from broker.queue import Shares
from ccplane.base.flows import FlowInfo
from telemetry.join import Key, key_of, keys_of
from telemetry.schema import Sample

MAX_STANDING: Final = 10_000
"""Maximum decisions kept. If there are more, the sender with the most decisions loses its oldest one."""

MAX_ALIKE: Final = 16
"""Maximum decisions kept about the same flows, such as one peer; the oldest is dropped first."""


class Standing:
    """The last decision of each sender on each topic, indexed by the flows that it is about."""

    def __init__(self, host: str) -> None:
        """Create an empty store; `host` is the name of this host, for decisions about all its flows."""
        self._host = host
        self._by_sender: dict[str, dict[str, Sample]] = {}
        self._by_key: dict[Key, dict[tuple[str, str], Sample]] = {}
        self._shares = Shares()

    def __len__(self) -> int:
        return self._shares.total

    def keep(self, sample: Sample) -> None:
        """Keep a decision; it replaces the previous one of its sender on its topic."""
        key = key_of(sample.body)
        if key is None or (key[0] == "host" and key[1] != self._host):
            return  # about no flow of this host
        self._forget(sample.sender, sample.topic)
        self._by_sender.setdefault(sample.sender, {})[sample.topic] = sample
        alike = self._by_key.setdefault(key, {})
        alike[sample.sender, sample.topic] = sample
        self._shares.add(sample.sender)
        if len(alike) > MAX_ALIKE:
            self._forget(*next(iter(alike)))
        if len(self) > MAX_STANDING:
            sender = self._shares.first_to_drop(next(iter(self._by_sender)))
            self._forget(sender, next(iter(self._by_sender[sender])))

    def forget(self, sender: str) -> None:
        """Forget the decisions of a sender."""
        for topic in list(self._by_sender.get(sender, ())):
            self._forget(sender, topic)

    def of(self, info: FlowInfo, now_us: int) -> list[Sample]:
        """Return the decisions about a flow that are in force, in order of arrival."""
        found = [
            sample
            for key in keys_of(self._host, info.src_addr, info.src_port, info.dst_addr, info.dst_port)
            for sample in self._by_key.get(key, {}).values()
        ]
        for sample in found:
            if sample.expired(now_us):
                self._forget(sample.sender, sample.topic)
        return sorted(
            (sample for sample in found if not sample.expired(now_us)), key=lambda sample: sample.received_us
        )

    def _forget(self, sender: str, topic: str) -> None:
        topics = self._by_sender.get(sender, {})
        sample = topics.pop(topic, None)
        if sample is None:
            return
        self._shares.add(sender, -1)
        if not topics:
            del self._by_sender[sender]
        key = key_of(sample.body)
        assert key is not None
        about = self._by_key[key]
        del about[sender, topic]
        if not about:
            del self._by_key[key]
