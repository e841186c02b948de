from __future__ import annotations

import re
from pathlib import Path

import pytest

from telemetry.ioam import Node, PathEcho, State, TcpState, Trace, TraceField, build
from tests.unit.test_docs import fences, rows

DOCUMENT = Path(__file__).parents[4] / "docs/ioam.md"
EXAMPLES = {"rssi_dbm": -60.0, "snr_db": 20.0}


def test_the_example_runs() -> None:
    (example,) = fences(DOCUMENT, "python")
    exec(compile(example, str(DOCUMENT), "exec"), {})


def test_every_field_of_a_trace_has_its_bit_and_size() -> None:
    reported = rows(DOCUMENT, "bit")
    assert [row[1].strip("`") for row in reported] == [field.name for field in TraceField]
    names: list[str] = []
    for bit, _, raw, fields, _ in reported:
        field = TraceField(1 << 23 - int(bit))
        (name, *rest) = re.findall(r"`(\w+)`", fields)
        names += [name, *rest]
        one = Trace(trace_type=field, nodes=(Node(),))
        bare = 2 + 2 + 8 + 4  # extension header with padding, heads of option and trace
        size = len(build([one])[0]) - bare
        assert size - int(raw.split()[0]) in {0, 4}  # padded to eight
    assert names == list(Node.__struct_fields__)


@pytest.mark.parametrize("row", rows(DOCUMENT, "bytes"), ids=lambda row: row[1].strip("`"))
def test_every_field_of_the_state_has_its_bytes(row: list[str]) -> None:
    name = row[1].strip("`")
    first, _, last = row[0].partition("-")
    raw = range(int(first), int(last or first) + 1)

    def data(state: State) -> bytes:
        trace = Trace(trace_type=TraceField.SNAPSHOT, nodes=(Node(snapshot=state),))
        return build([trace])[0][20:56]

    wireless = {"mcs": 0} if name != "mcs" else {"rssi_dbm": 0}  # so that both have 36 bytes
    without, with_it = data(State(**wireless)), data(State(**wireless, **{name: EXAMPLES.get(name, 5)}))
    changed = {n for n in range(36) if without[n] != with_it[n]}
    assert changed == set(raw)


def test_all_fields_of_the_state_are_reported() -> None:
    assert [row[1].strip("`") for row in rows(DOCUMENT, "bytes")] == list(State.__struct_fields__)


def test_the_state_of_tcp_lies_where_it_is_reported() -> None:
    header = build([TcpState(cwnd_bytes=0x01020304, mss_bytes=0x0506, first_sequence=0x0708)])[1]
    data = header[4:]  # extension header, type and length
    assert data[:12] == bytes.fromhex("6363 01 05 0506 01020304 0708")
    reported = {
        row[1].strip("`"): row[0] for row in rows(DOCUMENT, "byte offset after type and length") if row[1]
    }
    assert reported == {"mss_bytes": "4-5", "cwnd_bytes": "6-9", "first_sequence": "10-11"}


def test_an_echo_lies_where_it_is_reported() -> None:
    reported = {row[1].strip("`"): row[0] for row in rows(DOCUMENT, "bytes of the echo") if row[1]}
    assert set(reported) == set(PathEcho.__struct_fields__)
    for name, raw in reported.items():
        first, _, last = raw.partition("-")
        values = {"hops": 9, "hop": 7, "all_known": True}
        plain, changed = (
            build([PathEcho(**{"hops": 8, **value})])[1][6:]
            for value in ({}, {name: values.get(name, 0x01020304)})
        )
        differing = {n for n in range(len(plain)) if changed[n] != plain[n]}
        assert differing == set(range(int(first), int(last or first) + 1)), name
