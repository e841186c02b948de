from __future__ import annotations

from collections.abc import Iterable

import pytest

from ccplane.agent.flowtable import FlowRow
from ccplane.agent.monitor.history import FlowHistory
from ccplane.agent.monitor.model import BY_NAME, COLUMNS, SPARK_WIDTH, Chosen, layout
from tests.unit.agent.monitor.faked import flow_row, made_up


def ids(chosen: Chosen, rows: Iterable[FlowRow]) -> list[int]:
    return [flow.row.flow_id for flow in chosen.apply(FlowHistory(row) for row in rows)]


def names(width: int, rows: list[FlowRow]) -> list[str]:
    return [placed.column.name for placed in layout(width, rows)]


def test_fastest_flow_comes_first_unless_asked_otherwise() -> None:
    rows = [flow_row(1, throughput_bytes_per_s=5.0), flow_row(2, throughput_bytes_per_s=7.0)]
    assert ids(Chosen(), rows) == [2, 1]
    assert ids(Chosen(turned=True), rows) == [1, 2]


def test_names_are_sorted_from_a_to_z() -> None:
    rows = [flow_row(1, steered_by="reno/default"), flow_row(2, steered_by="cubic/default")]
    assert ids(Chosen("algorithm"), rows) == [2, 1]
    assert ids(Chosen("algorithm", turned=True), rows) == [1, 2]


@pytest.mark.parametrize("turned", [False, True])
def test_flows_without_a_value_come_last_in_either_order(turned: bool) -> None:
    rows = [flow_row(1, srtt_us=0), flow_row(2, srtt_us=5), flow_row(3, srtt_us=9)]
    assert ids(Chosen("srtt", turned), rows)[-1] == 1


@pytest.mark.parametrize("turned", [False, True])
def test_equal_flows_stand_in_order_of_their_ids(turned: bool) -> None:
    assert ids(Chosen("cwnd", turned), [flow_row(3), flow_row(1), flow_row(2)]) == [1, 2, 3]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_flows_can_be_sorted_by_every_column(column: object) -> None:
    name = column.name  # type: ignore[attr-defined]
    assert sorted(ids(Chosen(name), made_up(3))) == [1, 2, 3, 4, 5]


def test_same_column_again_turns_the_order_round() -> None:
    chosen = Chosen().by("srtt")
    assert (chosen.sort, chosen.descending) == ("srtt", True)
    assert not chosen.by("srtt").descending
    assert chosen.by("srtt").by("cwnd").descending


def test_next_column_goes_round() -> None:
    chosen = Chosen(COLUMNS[0].name, filter="x")
    assert chosen.next(1).sort == COLUMNS[1].name
    assert chosen.next(-1).sort == COLUMNS[-1].name
    assert chosen.next(-1).next(1).sort == COLUMNS[0].name
    assert chosen.next(1).filter == "x"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", [1, 2]),
        ("CUBIC", [1]),
        ("10.0.0.9", [2]),
        (":5001 cubic", [1]),
        ("cubic reno", []),
        ("!cubic", [2]),
        ("!", []),
        ("ccp.reno", [2]),
    ],
)
def test_filter_wants_every_word(words: str, expected: list[int]) -> None:
    rows = [flow_row(1), flow_row(2, dst="10.0.0.9:443", cc_name="ccp.reno", steered_by="reno/default")]
    assert sorted(ids(Chosen(filter=words), rows)) == expected


def test_wide_terminal_has_all_columns() -> None:
    assert names(180, [flow_row(1)]) == [column.name for column in COLUMNS]


def test_narrow_terminal_leaves_columns_out_and_keeps_the_sparklines() -> None:
    assert names(80, [flow_row(1)]) == ["peer", "algorithm", "cwnd", "throughput", "srtt"]


@pytest.mark.parametrize("width", [78, 100, 120, 150, 200, 300])
@pytest.mark.parametrize("rows", [[], [flow_row(1)], made_up(5)], ids=["none", "one", "long"])
def test_columns_fit_into_the_terminal(width: int, rows: list[FlowRow]) -> None:
    placed = layout(width, rows)
    assert sum(one.width + 2 for one in placed) <= width
    assert {one.spark_width for one in placed if one.column.metric is not None} <= set(
        range(SPARK_WIDTH[0], SPARK_WIDTH[1] + 1)
    )


def test_very_narrow_terminal_scrolls() -> None:
    assert sum(one.width + 2 for one in layout(40, made_up(5))) > 40


def test_long_address_loses_its_beginning_and_long_name_its_end() -> None:
    row = flow_row(1, dst="[2001:db8:4000:12::17]:5201", steered_by="a_long_algorithm/program")
    texts = {one.column.name: one.text(row) for one in layout(80, [row])}
    assert texts["peer"].startswith("…")
    assert texts["peer"].endswith("::17]:5201")
    assert texts["algorithm"].startswith("a_long_al")
    assert texts["algorithm"].endswith("…")


def test_heading_shows_the_order_and_its_direction() -> None:
    (placed,) = [one for one in layout(180, [flow_row(1)]) if one.column is BY_NAME["throughput"]]
    assert placed.heading(Chosen()) == "throughput ▼\nMbit/s"
    assert placed.heading(Chosen(turned=True)).startswith("throughput ▲")
    assert placed.heading(Chosen("srtt")).startswith("throughput\n")
    (narrow,) = [one for one in layout(80, [flow_row(1)]) if one.column is BY_NAME["throughput"]]
    assert narrow.heading(Chosen()) == placed.heading(Chosen()), "names are never shortened"
    assert narrow.width >= len("throughput ▼")


def test_numbers_stand_below_their_heading() -> None:
    (placed,) = [one for one in layout(180, [flow_row(1)]) if one.column is BY_NAME["retrans"]]
    assert placed.heading(Chosen("retrans")) == "retransmitted ▼\n        packets"
    assert placed.text(flow_row(1, retrans_pkts=1_204)) == "1,204".rjust(15)
