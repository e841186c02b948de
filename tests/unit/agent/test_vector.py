from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ccp_algs import Updates
from ccplane.agent.streams import Decision
from ccplane.agent.vector import amounts, send
from ccplane.base.errors import ParamError
from ccplane.base.flows import MAX_AMOUNT
from tests.unit.agent.fakes import FakeInfo, fake_datapath, outcome


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (None, [0, 0, 0]),
        (5, [5, 5, 5]),
        ([1.9, 2.0, 0.0], [1, 2, 0]),
        (np.array([1, 2, 3], np.int64), [1, 2, 3]),
        (np.array([1, 2, 3], np.uint64)[::-1], [3, 2, 1]),
        ([True, False, True], [1, 0, 1]),
    ],
)
def test_amounts_are_whole_numbers(values: object, expected: list[int]) -> None:
    made = amounts(values, 3, "cwnd_bytes")  # type: ignore[arg-type]
    assert made.dtype == np.uint64
    assert made.tolist() == expected


@pytest.mark.parametrize(
    ("values", "slug", "place"),
    [
        ([1, 2], "update.shape", "(2,)"),
        ([[1, 2, 3]], "update.shape", "(1, 3)"),
        (["a", "b", "c"], "update.not_a_number", "dtype"),
        ([1.0, math.nan, 3.0], "update.not_a_number", "cwnd_bytes[1]"),
        ([1.0, 2.0, math.inf], "update.not_a_number", "cwnd_bytes[2]"),
        ([1, -2, 3], "update.out_of_range", "cwnd_bytes[1] is -2"),
        (np.array([1, 2, 2**63], np.uint64), "update.out_of_range", "cwnd_bytes[2]"),
    ],
)
def test_bad_amounts_are_refused_with_the_row(values: object, slug: str, place: str) -> None:
    with pytest.raises(ParamError) as caught:
        amounts(values, 3, "cwnd_bytes")  # type: ignore[arg-type]
    assert caught.value.slug == slug
    assert place in caught.value.message


@given(hnp.arrays(hnp.scalar_dtypes() | hnp.unsigned_integer_dtypes(), st.integers(0, 5)))
def test_any_array_is_in_range_or_refused(values: np.ndarray) -> None:
    made = outcome(lambda: amounts(values, len(values), "x"))
    if isinstance(made, ParamError):
        assert made.slug in ("update.not_a_number", "update.out_of_range")
    else:
        assert made.dtype == np.uint64
        assert (made <= MAX_AMOUNT).all()
        assert np.array_equal(made, np.trunc(values.astype(np.float64)).astype(np.uint64))


def test_decisions_are_written_as_the_datapath_takes_them() -> None:
    datapath = fake_datapath(FakeInfo(1), FakeInfo(2))
    ids = np.array([1, 2, 9], np.uint64)
    assert send(datapath, Updates(ids, np.array([10.5, 0, 30]))) == 2
    assert datapath.written_many == [([1, 2, 9], [10, 0, 30], [0, 0, 0])]


def test_nothing_is_written_when_one_row_is_bad() -> None:
    datapath = fake_datapath(FakeInfo(1))
    with pytest.raises(ParamError):
        send(datapath, Updates(np.array([1], np.uint64), np.array([10]), np.array([-1])))
    assert datapath.written_many == []


def test_registers_are_written_with_the_rest_in_one_call() -> None:
    datapath = fake_datapath(FakeInfo(1), FakeInfo(2))
    ids = np.array([1, 2], np.uint64)
    registers = {"mtp_us": np.array([10.9, 20]), "learned": np.array([True, False])}
    assert send(datapath, Updates(ids, registers=registers)) == 2  # type: ignore[arg-type]
    assert datapath.written_many == [([1, 2], [0, 0], [0, 0])]
    assert datapath.registers_many == [{"mtp_us": [10, 20], "learned": [1, 0]}]


def test_no_registers_are_none() -> None:
    datapath = fake_datapath(FakeInfo(1))
    send(datapath, Updates(np.array([1], np.uint64), np.array([10], np.uint64)))
    assert datapath.registers_many == []


@pytest.mark.parametrize(
    "values", [np.array([(1 << 64) - 1], np.uint64), np.array([1 << 50], np.int64), np.array([2.0**63])]
)
def test_a_register_holds_64_bits(values: np.ndarray) -> None:
    datapath = fake_datapath(FakeInfo(1))
    send(datapath, Updates(np.array([1], np.uint64), registers={"x": values}))
    assert datapath.registers_many == [{"x": [int(values[0])]}]


@pytest.mark.parametrize("value", [2.0**64, -1, math.nan])
def test_nothing_is_written_when_a_register_is_bad(value: float) -> None:
    datapath = fake_datapath(FakeInfo(1))
    with pytest.raises(ParamError) as caught:
        send(datapath, Updates(np.array([1], np.uint64), registers={"mtp_us": np.array([value])}))  # type: ignore[dict-item]
    assert "mtp_us[0]" in caught.value.message
    assert datapath.written_many == []


def test_registers_of_many_are_reported_flow_by_flow() -> None:
    ids = np.array([1, 2], np.uint64)
    many = Updates(ids, registers={"mtp_us": np.array([10, 20], np.uint64)})
    reported = list(Decision(5, many=many).singles())
    assert [(one.flow_id, one.cwnd_bytes, one.registers) for one in reported] == [
        (1, None, {"mtp_us": 10}),
        (2, None, {"mtp_us": 20}),
    ]
