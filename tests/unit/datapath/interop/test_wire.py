"""Programs and messages of portus; `ccp-lang/tests/messages.rs` compares them with portus' bytes."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccplane.base import _native
from ccplane.base.errors import CcpError, LangError
from ccplane.datapath import ebpf, wire
from ccplane.datapath.wire import Create, Field, Install, Ready

KEPT = Path(__file__).parents[4] / "native/ccp-lang/tests/messages.txt"
TEXT = """(def (Report (volatile acked 0)) (step 3))
    (when (> Micros 10) (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
    (when true (:= Cwnd step) (report))"""


def kept(name: str) -> bytes:
    rows = dict(line.split() for line in KEPT.read_text().splitlines())
    return bytes.fromhex(rows[name])


def test_a_program_is_sent_as_portus_sends_it_and_read_again() -> None:
    program = ebpf.compile_program(TEXT)
    message = Install(2, *wire.to_bytecode(program))
    assert message.to_bytes() == kept("install")
    (read,) = wire.messages(kept("install"))
    assert isinstance(read, Install)
    decoded = wire.from_bytecode(read.n_events, read.n_instrs, read.code, "2", "the agent")
    assert decoded.report_fields == ["r0"]
    assert decoded.control_registers == ["c0"]
    assert decoded.primitives == program.primitives
    both = [_native.Interpreter(one, now_us=100) for one in (program, decoded)]
    reports = [one.ack(120, {"Ack.bytes_acked": 1448}) for one in both]
    assert reports == [{"acked": 1448}, {"r0": 1448}]
    assert [one.cwnd_bytes for one in both] == [3, 3]


def test_a_program_that_no_compiler_makes_is_refused_with_the_number_of_its_instruction() -> None:
    n_events, n_instrs, code = wire.to_bytecode(ebpf.compile_program(TEXT))
    with pytest.raises(LangError) as caught:
        wire.from_bytecode(n_events, n_instrs, code[:-16] + b"\x0f" + code[-15:], "2", "the agent")
    assert caught.value.slug == "lang.bytecode"
    assert f'the agent:{n_instrs}:1, program "2"' in caught.value.where


def test_what_portus_datapaths_lack_is_refused_by_name() -> None:
    program = ebpf.compile_program(
        "(def (Report (y 0)))\n(when true\n  (:= Report.y Flow.srtt_us) (report))", origin="mine.py"
    )
    with pytest.raises(LangError, match=r"no field `Flow\.srtt_us`") as caught:
        wire.to_bytecode(program)
    assert (caught.value.slug, caught.value.where.split(",")[0]) == ("lang.limit", "mine.py:3:1")


def test_a_datagram_may_hold_several_messages() -> None:
    create = Create(9, 14480, 1448, 0x0100_000A, 35091, 0x0200_000A, 5001, "bbr")
    assert wire.messages(kept("ready") + kept("create-bbr")) == [Ready(3), create]


def framed(of_type: int, body: bytes) -> bytes:
    return struct.pack("<HHI", of_type, 8 + len(body), 1) + body


BODIES = st.binary(max_size=30) | st.integers(0, 2).flatmap(
    lambda n: st.binary(min_size=13 * n, max_size=13 * n).map(lambda fields: struct.pack("<I", n) + fields)
)


@given(st.lists(st.builds(framed, st.integers(0, 6), BODIES), max_size=3), st.binary(max_size=9))
def test_anything_is_messages_or_refused(parts: list[bytes], tail: bytes) -> None:
    with suppress(CcpError):
        read = list(wire.messages(b"".join(parts) + tail))
        again = b"".join(message.to_bytes() for message in read)
        assert list(wire.messages(again)) == read


def test_values_are_those_of_control_registers_window_and_rate() -> None:
    fields = [Field(0, 3, 7), Field(8, 4, 8), Field(2, 4, 14480), Field(2, 5, 0)]
    assert wire.values(fields) == {"c3": 7, "c4": 8, "cwnd_bytes": 14480}
    for kind, index in ((5, 0), (2, 3)):
        with pytest.raises(CcpError) as caught:
            wire.values([Field(kind, index, 1)])
        assert caught.value.slug == "wire.read_only"
