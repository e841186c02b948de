from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import BusError
from broker.topics import BY_KIND, check_sender, parse_topic, subscription, table, topic_kind, topic_of
from telemetry import schema

DOCS = Path(__file__).parents[3] / "docs/telemetry.md"


@pytest.mark.parametrize("topic", BY_KIND.values(), ids=lambda topic: topic.kind)
def test_a_topic_comes_apart_as_it_was_made(topic) -> None:
    made = topic_of(topic.kind, "host-a.1", "fd00::1")
    address = parse_topic(made)
    assert address is not None
    assert address.topic is topic
    assert address.sender == "host-a.1"
    assert address.about == ("" if topic.about is None else "fd00::1")
    assert made.count("/") == subscription(topic.kind).count("/") == topic.pattern.count("/")


def test_the_table_in_the_docs_is_this_one() -> None:
    assert schema.VERSION == 1  # its bodies declare the kinds
    assert table() in DOCS.read_text()


def test_decisions_are_at_least_once() -> None:
    assert {topic.kind for topic in BY_KIND.values() if topic.decision} == {
        "regime_decision",
        "agent_status",
        "param_change",
    }
    assert all(topic.qos == 1 for topic in BY_KIND.values() if topic.decision or topic.retain)


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "ccp",
        "ccp/v1",
        "ccp/v1/",
        "ccp/v2/signal/a/10.0.0.1",
        "ccp/v1/nothing/a",
        "ccp/v1/signal/a",
        "ccp/v1/status/a/b",
        "ccp/v1/status/",
        "ccp/v1/status/a b",
        "ccp/v1/signal/a/",
        "ccp/v1/signal/a/b/c",
        "ccp/v1/signal/a/b#",
        "other/v1/status/a",
    ],
)
def test_other_topics_are_not_own(topic: str) -> None:
    assert parse_topic(topic) is None


@pytest.mark.parametrize("name", ["", "a/b", "+", "#", "a b", "ä", "x" * 65, "a\n"])
def test_a_name_that_is_no_level_is_refused(name: str) -> None:
    with pytest.raises(BusError) as caught:
        check_sender(name)
    assert caught.value.slug == "bus.bad_name"
    with pytest.raises(BusError) as caught:
        topic_of("receiver_signal", "a", name)
    assert caught.value.slug == "bus.bad_name"


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(BusError) as caught:
        topic_kind("signal")
    assert caught.value.slug == "bus.unknown_kind"
    assert "receiver_signal" in caught.value.fix
