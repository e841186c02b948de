from __future__ import annotations

import io
import os
from pathlib import Path
from types import SimpleNamespace

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from telemetry.codec import MAX_BYTES
from telemetry.inband.publisher import Publisher, PublisherCounters
from telemetry.schema import FlowId, IntSummary

LINES = Path(__file__).parents[4] / "native/ccp-int/src/tests/summaries.jsonl"
"""Output of a sink; `native/ccp-int/src/tests/json.rs` compares it."""


class FakeBus:
    def __init__(self) -> None:
        self.published: list[IntSummary] = []
        self.counters = SimpleNamespace(connection=SimpleNamespace(samples_dropped=0))

    def publish(self, body: IntSummary, *, ttl_ms: int | None = None) -> None:
        self.published.append(body)


def fed(*chunks: bytes) -> tuple[list[IntSummary], PublisherCounters]:
    bus = FakeBus()
    publisher = Publisher(bus)  # type: ignore[arg-type]
    for chunk in chunks:
        publisher.feed(chunk)
    publisher.end()
    return bus.published, publisher.counters


def test_what_a_sink_writes_is_what_the_bus_has() -> None:
    lines = LINES.read_bytes().splitlines()
    published, counters = fed(LINES.read_bytes())
    assert [msgspec.json.encode(one) for one in published] == lines
    assert counters == PublisherCounters(published=len(lines))
    reported = {name for line in lines for name in msgspec.json.decode(line)}
    assert reported - {"kind"} == set(IntSummary.__struct_fields__) - {"peer", "address", "host"}


@given(st.lists(st.integers(0, 3000), max_size=8), st.binary(max_size=40))
def test_lines_may_come_in_any_pieces(cuts: list[int], noise: bytes) -> None:
    noise = noise.replace(b"\n", b"")
    whole = LINES.read_bytes() + noise + b"\n" + LINES.read_bytes()
    ends = sorted({min(cut, len(whole)) for cut in cuts})
    pieces = [whole[start:end] for start, end in zip([0, *ends], [*ends, len(whole)], strict=True)]
    published, counters = fed(*pieces)
    assert len(published) == 2 * len(LINES.read_bytes().splitlines())
    assert (counters.published, counters.unreadable) == (len(published), 1)


@given(st.binary(max_size=300))
@example(b'{"kind": "int_summary", "flow": {"src": "x", "dst": "y", "src_port": 1, "dst_port": 2}}\n')
@example(b"[" * 3000 + b"\n")
def test_whatever_comes_is_counted_and_ends_nothing(raw: bytes) -> None:
    published, counters = fed(raw)
    lines = raw.split(b"\n")
    assert counters.unreadable + len(published) == len(lines) - (lines[-1] == b"")


def test_a_line_without_end_takes_no_memory() -> None:
    good = msgspec.json.encode(IntSummary(flow=FlowId(src="::1", src_port=1, dst="::2", dst_port=2)))
    published, counters = fed(*[b"x" * MAX_BYTES] * 5, b"\n" + good + b"\n")
    assert (len(published), counters.unreadable) == (1, 1)


def test_a_descriptor_is_read_to_its_end_and_copied() -> None:
    reading, writing = os.pipe()
    os.write(writing, LINES.read_bytes())
    os.close(writing)
    bus, copy = FakeBus(), io.BytesIO()
    Publisher(bus, copy=copy).run(reading)  # type: ignore[arg-type]
    os.close(reading)
    assert copy.getvalue() == LINES.read_bytes()
    assert len(bus.published) == len(LINES.read_bytes().splitlines())
