"""How `ccp bench latency` splits the time of an update."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from experiments.bench.rounds import Unfit
from experiments.bench.spans import MIN_UPDATES, PARTS, Stamp, spans, split, start

NONE = (math.nan, math.nan)


def test_the_parts_of_a_way_add_up() -> None:
    found = split([(100, 103, 140, 142, 150.5, 155.25, *NONE)])
    assert {name: values.tolist() for name, values in found.items()} == {
        "fold": [3],
        "wake": [37],
        "take": [2],
        "python": [8.5],
        "update": [4.75],
        "next_ack": [],
        "written": [55.25],
        "applied": [],
    }
    assert sum(found[part].sum() for part in PARTS) == found["written"].sum()


def test_a_report_that_comes_while_the_agent_is_awake_has_no_time_to_wake() -> None:
    found = split([(100, 103, 90, 142, 150, 155, *NONE)])
    assert found["wake"].tolist() == [0]
    assert found["take"].tolist() == [39]


def test_the_next_ack_is_counted_from_the_message_that_it_applied() -> None:
    way = (100, 103, 140, 142, 150, 155)
    found = split([(*way, 90.0, 60.0), (*way, 90.0, 95.0), (*way, *NONE)])
    assert found["applied"].tolist() == [90, 90]
    assert found["next_ack"].tolist() == [30], "the second one's letter was written after that ACK"


def test_a_round_without_updates_does_not_count() -> None:
    start()
    batch = SimpleNamespace(made_us=lambda: {100: 103}, woken_us=140, taken_us=142)
    Stamp.batches.append(batch)
    Stamp.answered.extend([(batch, 100, 150_000, 155_000, 0)] * (MIN_UPDATES - 1))
    with pytest.raises(Unfit, match="only 99 updates"):
        spans()
    Stamp.answered.append((batch, 100, 150_000, 155_000, 60))
    found = spans()
    assert found["written"].tolist() == [55] * MIN_UPDATES
    assert (found["applied"].tolist(), found["next_ack"].tolist()) == ([60], [5])
    start()
    with pytest.raises(Unfit, match="only 0"):
        spans()
