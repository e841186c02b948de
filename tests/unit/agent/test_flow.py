from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs import ContractError
from ccplane.agent.flow import FlowControl, whole_number
from ccplane.agent.programs import ProgramSet
from ccplane.base.errors import FlowGone, ParamError, ProgramError, RegisterError
from ccplane.base.flows import MAX_AMOUNT, MAX_REGISTER
from tests.unit.agent.fakes import (
    FakeDatapath,
    FakeInfo,
    FakeProgram,
    Written,
    fake_datapath,
    outcome,
    stamped,
)


def programs(datapath: FakeDatapath, initial: str | None = "default") -> ProgramSet:
    other = FakeProgram(name="probe", report_fields=["rtt_us"], control_registers=["gain"])
    return ProgramSet("alg", datapath, {"default": FakeProgram(), "probe": other}, initial)


def opened(datapath: FakeDatapath) -> FlowControl:
    flow = FlowControl(FakeInfo(1), programs(datapath), datapath)
    flow.open()
    datapath.written.clear()
    return flow


@pytest.fixture
def datapath() -> FakeDatapath:
    return fake_datapath(FakeInfo(1))


def test_set_writes_window_rate_and_registers_at_once(datapath: FakeDatapath) -> None:
    opened(datapath).set(cwnd_bytes=20_000, rate_bytes_per_s=1_000_000, cap_bytes=7)
    assert datapath.written == [Written(1, 20_000, 1_000_000, None, {"cap_bytes": 7})]


def test_set_leaves_what_is_not_given(datapath: FakeDatapath) -> None:
    flow = opened(datapath)
    flow.set(cwnd_bytes=20_000)
    flow.set(rate_bytes_per_s=0)
    flow.set(cap_bytes=1)
    assert datapath.written == [
        Written(1, 20_000, None, None, None),
        Written(1, None, 0, None, None),
        Written(1, None, None, None, {"cap_bytes": 1}),
    ]


def test_everything_of_on_create_is_one_message_with_the_first_program(datapath: FakeDatapath) -> None:
    flow = FlowControl(FakeInfo(1), programs(datapath), datapath)
    flow.set(cwnd_bytes=20_000, cap_bytes=5)
    flow.set(rate_bytes_per_s=9, beta_permille=700)
    assert datapath.written == []
    flow.open()
    assert datapath.written == [Written(1, 20_000, 9, 1, {"cap_bytes": 5, "beta_permille": 700})]
    assert (flow.handle, flow.program) == (1, "default")


def test_message_to_an_extension_goes_with_the_first_message_and_later_at_once(
    datapath: FakeDatapath,
) -> None:
    flow = FlowControl(FakeInfo(1), programs(datapath), datapath)
    flow.extend("counter", b"24")
    flow.extend("other", b"x")
    assert datapath.written == []
    flow.open()
    flow.extend("counter", b"16")
    flow.extend("counter", None)
    assert [written.messages for written in datapath.written] == [
        {"counter": b"24", "other": b"x"},
        {"counter": b"16"},
        {"counter": b""},
    ]
    datapath.there.clear()
    with pytest.raises(FlowGone):
        flow.extend("counter", b"24")


def test_extensions_of_the_algorithm_before_leave_the_flow(datapath: FakeDatapath) -> None:
    before = opened(datapath)
    before.extend("counter", b"24")
    before.extend("left", b"1")
    before.extend("left", None)
    before.extend("other", b"x")
    after = FlowControl(FakeInfo(1), programs(datapath), datapath)
    after.extend("other", b"y")
    after.open(before)
    assert datapath.written[-1].messages == {"counter": b"", "other": b"y"}
    last = FlowControl(FakeInfo(1), programs(datapath), datapath)
    last.extend("other", b"z")
    last.open(after)
    assert datapath.written[-1].messages == {"other": b"z"}


def test_program_chosen_in_on_create_is_the_first_one(datapath: FakeDatapath) -> None:
    flow = FlowControl(FakeInfo(1), programs(datapath), datapath)
    flow.set(cap_bytes=5)
    flow.set_program("probe", cwnd_bytes=3_000, gain=2)
    flow.set(gain=3)
    flow.open()
    assert datapath.written == [Written(1, 3_000, None, 2, {"gain": 3})]
    assert flow.handle == 2


def test_flow_without_first_program_goes_to_the_fallback(datapath: FakeDatapath) -> None:
    flow = FlowControl(FakeInfo(1), programs(datapath, initial=None), datapath)
    with pytest.raises(ProgramError) as caught:
        flow.set(cap_bytes=1)
    assert caught.value.slug == "program.none"
    flow.open()
    assert datapath.written == [Written(1, None, None, 0, None)]
    assert (flow.handle, flow.program) == (0, None)


def test_set_program_writes_through_and_makes_older_reports_stale(datapath: FakeDatapath) -> None:
    flow = opened(datapath)
    flow.set_program("probe", rate_bytes_per_s=5, gain=2)
    assert datapath.written == [Written(1, None, 5, 2, {"gain": 2})]
    assert (flow.handle, flow.program) == (stamped(2, 1), "probe")


def test_registers_belong_to_the_program_that_runs(datapath: FakeDatapath) -> None:
    flow = opened(datapath)
    flow.set_program("probe")
    flow.set(gain=1)
    with pytest.raises(RegisterError):
        flow.set(cap_bytes=1)


@pytest.mark.parametrize(
    ("name", "slug", "hint"),
    [
        ("cap_byte", "register.unknown", "`cap_bytes`"),
        ("xyzzy", "register.unknown", "beta_permille, cap_bytes"),
        ("acked", "register.read_only", "acked_set"),
    ],
)
def test_wrong_register_is_refused_and_nothing_is_written(
    datapath: FakeDatapath, name: str, slug: str, hint: str
) -> None:
    flow = opened(datapath)
    with pytest.raises(RegisterError) as caught:
        flow.set(cwnd_bytes=5_000, **{name: 1})
    assert caught.value.slug == slug
    assert hint in caught.value.fix
    assert datapath.written == []


def test_unknown_program_is_refused_with_close_names(datapath: FakeDatapath) -> None:
    flow = opened(datapath)
    with pytest.raises(ProgramError) as caught:
        flow.set_program("prob")
    assert caught.value.slug == "program.unknown"
    assert "`probe`" in caught.value.fix
    assert (datapath.written, flow.handle) == ([], 1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "20000", None, 1j, [1]])
def test_no_number_is_refused(value: object) -> None:
    with pytest.raises(ParamError) as caught:
        whole_number(value, "cwnd_bytes", 1, MAX_AMOUNT)  # type: ignore[arg-type]
    assert caught.value.slug == "update.not_a_number"


@pytest.mark.parametrize(
    ("value", "why"), [(-1, "negative"), (-0.5e9, "negative"), (0, "minimum"), (1e13, "maximum")]
)
def test_absurd_window_is_refused(datapath: FakeDatapath, value: float, why: str) -> None:
    flow = opened(datapath)
    with pytest.raises(ParamError) as caught:
        flow.set(cwnd_bytes=value)
    assert caught.value.slug == "update.out_of_range"
    assert why in caught.value.why
    assert datapath.written == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1448.9, 1448),
        (np.float64(1448.9), 1448),
        (np.uint32(7), 7),
        (np.int64(9), 9),
        (True, 1),
        (np.bool_(True), 1),
    ],
)
def test_numbers_of_all_kinds_are_taken_with_fractions_cut_off(value: float, expected: int) -> None:
    assert whole_number(value, "x", 0, MAX_REGISTER) == expected
    assert type(whole_number(value, "x", 0, MAX_REGISTER)) is int


def test_register_may_be_infinity_of_the_language(datapath: FakeDatapath) -> None:
    flow = opened(datapath)
    flow.set(cap_bytes=MAX_REGISTER)
    assert datapath.written[0].registers == {"cap_bytes": 2**64 - 1}
    with pytest.raises(ParamError):
        flow.set(cap_bytes=MAX_REGISTER + 1)


def test_what_is_reported_goes_out_at_once_or_with_the_first_message(datapath: FakeDatapath) -> None:
    reported: list[Any] = []
    flow = FlowControl(
        FakeInfo(1),
        programs(datapath),
        datapath,
        lambda kind, info, detail: reported.append((kind, info.flow_id, detail)),
    )
    flow.emit("regime:begun", flow="shared")
    assert reported == []
    flow.open()
    flow.emit("regime:switched", kind=1)
    assert reported == [("regime:begun", 1, {"flow": "shared"}), ("regime:switched", 1, {"kind": 1})]


@pytest.mark.parametrize("kind", ["flow:closed", "telemetry:lost", "Regime:switched", "switched", "a:b:c"])
def test_event_that_is_the_agents_or_misspelt_is_refused(datapath: FakeDatapath, kind: str) -> None:
    with pytest.raises(ContractError) as caught:
        opened(datapath).emit(kind)
    assert caught.value.slug == "contract.bad_event"


def test_flow_that_closed_says_so(datapath: FakeDatapath) -> None:
    flow = opened(datapath)
    datapath.there.clear()
    for write in (
        lambda: flow.set(cwnd_bytes=5_000),
        lambda: flow.set_program("probe"),
    ):
        with pytest.raises(FlowGone) as caught:
            write()
        assert caught.value.slug == "flow.gone"
        assert "10.0.0.1:40000 -> 10.0.0.2:5001" in caught.value.message
    assert flow.program == "default"


@given(st.one_of(st.integers(), st.floats(), st.booleans()))
def test_any_number_is_whole_and_in_range_or_refused(value: float) -> None:
    number = outcome(lambda: whole_number(value, "x", 0, MAX_AMOUNT))
    if isinstance(number, ParamError):
        assert number.slug in ("update.not_a_number", "update.out_of_range")
        assert not (isinstance(value, int) and 0 <= value <= MAX_AMOUNT)
    else:
        assert type(number) is int
        assert 0 <= number <= MAX_AMOUNT
        assert 0 <= value - number < 1 or -1 < value < 0
