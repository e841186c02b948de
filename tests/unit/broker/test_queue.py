from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.queue import FairQueue, TopicQueue


def drained(queue: TopicQueue[int]) -> list[int]:
    return [queue.pop() for _ in range(len(queue))]


def test_a_full_queue_gives_up_what_has_a_successor_then_the_oldest() -> None:
    queue: TopicQueue[int] = TopicQueue(3)
    for number, topic in enumerate("abab"):
        queue.put(topic, number)
    assert queue.dropped == 1
    queue.put("c", 4)
    assert drained(queue) == [2, 3, 4]
    for number, topic in enumerate("abcd"):
        queue.put(topic, number)
    assert drained(queue) == [1, 2, 3]
    assert (queue.dropped, queue.replaced) == (3, 0)


def test_what_says_all_takes_the_place_of_the_one_before() -> None:
    queue: TopicQueue[int] = TopicQueue(10)
    for number in range(1_000):
        queue.put("ab"[number % 2], number, only_last=True)
    assert drained(queue) == [998, 999]
    assert queue.replaced == 998


def test_what_comes_back_is_the_first_again_and_the_first_to_go_if_outdated() -> None:
    queue: TopicQueue[int] = TopicQueue(2)
    queue.put("a", 1)
    queue.put("a", 2)
    first = queue.pop()
    queue.put_first("a", first)
    assert drained(queue) == [1, 2]
    queue.put("a", 2)
    queue.put_first("a", 1)
    queue.put("b", 3)
    assert drained(queue) == [2, 3]


@given(
    st.integers(1, 5),
    st.lists(
        st.tuples(st.sampled_from(["put", "only_last", "put_first", "pop", "clear"]), st.integers(0, 4))
    ),
)
def test_it_is_bounded_and_never_gives_up_the_newest_of_a_topic_while_it_has_outdated_ones(
    limit: int, steps: list[tuple[str, int]]
) -> None:
    queue: TopicQueue[int] = TopicQueue(limit)
    kept = gone = 0
    for number, (step, topic) in enumerate(steps):
        before, dropped = [topic for topic, _ in queue._messages.values()], queue.dropped
        if step == "pop":
            gone += bool(len(queue) and queue.pop() is not None)
        elif step == "clear":
            gone += len(queue.clear())
        elif step == "put_first":
            queue.put_first(topic, number)
            kept += 1
        else:
            queue.put(topic, number, only_last=step == "only_last")
            kept += 1
        after = [topic for topic, _ in queue._messages.values()]
        if queue.dropped > dropped and len(set(before)) < len(before):
            assert set(after) >= set(before), "no topic lost its last message while others had several"
        assert len(queue) <= limit
        assert kept == gone + len(queue) + queue.dropped + queue.replaced


def test_a_full_fair_queue_drops_from_the_longest_queue_of_a_sender() -> None:
    queue: FairQueue[int] = FairQueue(4)
    queue.put("few", "t", 0)
    for number in range(1, 10):
        queue.put("many", number, number)
    assert len(queue) == 4
    assert [queue.first(sender) for sender in ("few", "many", "none")] == [0, 7, None]
    assert [queue.pop("many") for _ in range(3)] == [7, 8, 9]
    assert queue.pop("few") == 0
    assert len(queue) == 0
    assert queue.first("few") is None


@given(
    st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 3), st.sampled_from(["put", "only", "pop"]))),
    st.integers(1, 5),
)
def test_a_fair_queue_keeps_its_limit_the_order_of_each_sender_and_the_last(
    steps: list[tuple[str, int, str]], limit: int
) -> None:
    queue: FairQueue[int] = FairQueue(limit)
    popped: dict[str, list[int]] = {}
    put = dropped = replaced = 0
    for number, (sender, topic, what) in enumerate(steps):
        if what != "pop":
            before = len(queue)
            gone = queue.put(sender, topic, number, only_last=what == "only")
            put, dropped, replaced = put + 1, dropped + gone, replaced + before + 1 - gone - len(queue)
        elif queue.first(sender) is not None:
            popped.setdefault(sender, []).append(queue.pop(sender))
        assert len(queue) <= limit
    assert all(numbers == sorted(numbers) for numbers in popped.values())
    taken = sum(map(len, popped.values()))
    assert put == taken + dropped + replaced + len(queue)
    assert len(queue.clear()) == put - taken - dropped - replaced
    assert len(queue) == 0
