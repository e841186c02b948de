"""Hyvar in Python: collector and reasoner by hand, and what the algorithms decide."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccp_algs import Updates, check_algorithm, params_of, set_params
from ccp_algs.cubic_control import CubicAnswers
from ccp_algs.episodes import CUT, STARTED, UNDO
from ccp_algs.hyvar.algorithms import HybridMtp, Hyvar, PolicyAlone
from ccp_algs.hyvar.collector import Collector, States, View
from ccp_algs.hyvar.fold import PPM, HyvarFold
from ccp_algs.hyvar.policy import PolicyError
from ccp_algs.hyvar.reasoner import Bounds, cases, next_mtp_us, priced
from ccp_algs.simulated_flow import FakeInfo, FakeReport
from ccplane.base._native import compile
from experiments.runs.files import sources
from tests.unit.ccp_algs.folded import MSS
from tests.unit.ccp_algs.hyvar_weights import constant, file_of, save

ALPHA, DELTA = 0.2, 0.01
HEAD = ("flow_id", "now_us", "cwnd_bytes", "rate_bytes_per_s")
ROW = np.dtype([(name, "u8") for name in (*HEAD, *HyvarFold.report_fields)])
ID = (1 << 32) | 3
RTT_US = 30_000


def rows(*reports: dict[str, int]) -> np.ndarray:
    """Reports of flow `ID`, or of another, at the end of an interval if nothing else is said."""
    made = np.zeros(len(reports), ROW)
    for row, report in zip(made, reports, strict=True):
        usual = {"flow_id": ID, "due": 1, "mss_bytes": MSS, "rtt_min_us": RTT_US, "srtt_us": RTT_US}
        for name, value in (usual | {"cwnd_bytes": 100 * MSS} | report).items():
            row[name] = value
    return made


def interval(number: int, rtt_us: int = RTT_US, lost: int = 0, **more: int) -> dict[str, int]:
    """The end of an interval of 10 ms, 40 segments delivered in each, of flows that all started at 1 s."""
    return {
        "now_us": 1_000_000 + 10_000 * number,
        "delivered_pkts": 40 * number,
        "lost_pkts": lost,
        "rtt_sum_us": 20 * RTT_US * (number - 1) + 20 * rtt_us,
        "rtt_samples": 20 * number,
        **more,
    }


START = {"event": STARTED, "now_us": 1_000_000}


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    yield
    for cls in (Hyvar, HybridMtp, PolicyAlone):
        for param in params_of(cls).values():
            param._by_class.pop(cls, None)


def policy_of(tmp_path: Path, action: float) -> str:
    return str(save(file_of(constant(action)), tmp_path / "constant.safetensors"))


def begun(cls: Any, tmp_path: Path, action: float = 0.0, **params: object) -> Any:
    """An algorithm with one flow, whose program has started."""
    set_params(cls, {"policy_file": policy_of(tmp_path, action), **params})
    algorithm = cls()
    algorithm.on_create(FakeInfo(flow_id=ID))
    algorithm.on_reports(rows(START), "default")
    return algorithm


def registers(updates: list[Updates]) -> dict[str, int]:
    """What is set of one flow."""
    made: dict[str, int] = {}
    for one in updates:
        assert one.flow_ids.tolist() == [ID]
        assert one.cwnd_bytes is None
        made |= {name: int(values[0]) for name, values in one.registers.items()}
    return made


# --- collector ---------------------------------------------------------------------------------------------


def collected(*reports: dict[str, int]) -> States:
    collector = Collector()
    collector.add(ID, 10_000.0)
    collector.begin(rows(START))
    for report in reports:
        states = collector.end(rows(report))
    assert states is not None
    return states


def test_interval_is_what_grew() -> None:
    # 40 segments in 10 ms, 10 lost; the RTT is 1.5 times the smallest, in the interval before it was 1.2.
    states = collected(
        interval(1, 36_000), interval(2, 54_000, lost=10) | {"rtt_sum_us": 20 * 36_000 + 20 * 45_000}
    )
    assert states.queue_rtts[0] == pytest.approx(0.5)
    assert states.gradient_rtts[0] == pytest.approx(0.3)
    assert states.loss_ratio[0] == pytest.approx(0.2)
    thr, thr_max = 40 * MSS / 0.01, 40 * MSS / 0.01
    bdp = thr_max * 0.03
    expected = [
        thr / thr_max,
        math.log2(1 + bdp / MSS) / 16,
        1 / 1.5,
        math.log2(31) / 12,
        0.2,
        math.log2(100 * MSS / bdp) / 4,
        1.0,
    ]
    assert states.observations[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_best_throughput_is_forgotten_after_the_window() -> None:
    collector = Collector()
    collector.add(ID, 10_000.0)
    collector.begin(rows(START))
    view = View(window_rtts=2.0)  # 60 ms, forgotten by halves
    collector.end(rows(interval(1)), view)
    seen = []
    for number in range(2, 12):
        slow = interval(number) | {"delivered_pkts": 40 + 10 * (number - 1)}
        states = collector.end(rows(slow), view)
        assert states is not None
        seen.append(round(float(states.observations[0][0]), 2))
    assert (seen[0], seen[-1]) == (0.25, 1.0)


def test_latest_train_reports_the_rate_of_the_path_where_it_is_higher() -> None:
    collector = Collector()
    collector.add(ID, 10_000.0)
    collector.begin(rows(START))
    seen = []
    for number, train_mbyte_per_s in enumerate((0, 11.584, 0, 23.168, 1, 0), 1):
        report = interval(number, train_bytes_per_s=int(1e6 * train_mbyte_per_s))
        states = collector.end(rows(report), View(trains=True))
        assert states is not None
        seen.append(float(states.observations[0][0]))
    # The flow has 40 segments in 10 ms, 5.792 MB/s: its best.
    assert seen == pytest.approx([1.0, 0.5, 0.5, 0.25, 1.0, 1.0])


def test_queue_stays_as_it_was_without_a_sample() -> None:
    quiet = interval(1, 45_000) | {"now_us": 1_020_000}
    states = collected(interval(1, 45_000), quiet)
    assert states.queue_rtts[0] == pytest.approx(0.5)
    assert states.gradient_rtts[0] == 0
    assert states.observations[0][2] == 1


def test_spurious_losses_are_no_negative_ones() -> None:
    assert collected(interval(1, lost=10), interval(2, lost=4)).loss_ratio[0] == 0


def test_losses_are_smoothed_over_intervals() -> None:
    # 10 of 50 sent, twice; then none.
    states = [collected(*(interval(n, lost=min(10 * n, 20)) for n in range(1, last))) for last in (2, 3, 4)]
    assert [float(one.smoothed_loss_ratio[0]) for one in states] == pytest.approx([0.04, 0.072, 0.0576])


def test_several_reports_of_a_flow_are_one_interval() -> None:
    collector = Collector()
    for flow_id in (ID, ID + 1):
        collector.add(flow_id, 10_000.0)
    both = [{**START, "flow_id": flow_id} for flow_id in (ID, ID + 1)]
    collector.begin(rows(*both))
    batch = rows(interval(1), interval(1, flow_id=ID + 1), interval(2))
    states = collector.end(batch)
    assert states is not None
    assert sorted(states.flow_ids.tolist()) == [ID, ID + 1]
    alone = collected(interval(2) | {"rtt_sum_us": 40 * RTT_US})
    row = states.flow_ids.tolist().index(ID)
    assert np.array_equal(states.observations[row], alone.observations[0])


def test_report_that_is_not_after_the_last_reports_nothing() -> None:
    collector = Collector()
    collector.add(ID, 10_000.0)
    collector.begin(rows(START))
    assert collector.end(rows(interval(2))) is not None
    assert collector.end(rows(interval(2))) is None
    assert collector.end(rows(interval(1))) is None


def test_slot_of_a_flow_that_is_gone_is_free_for_the_next() -> None:
    collector = Collector()
    next_id = ID + (1 << 32)
    collector.add(ID, 10_000.0)
    collector.begin(rows(START))
    collector.end(rows(interval(1, 60_000)))
    collector.add(next_id, 70_000.0)
    collector.remove(ID)  # its close comes late
    assert collector.mtp_us(np.array([next_id], np.uint64)).tolist() == [70_000.0]
    collector.begin(rows({**START, "flow_id": next_id}))
    states = collector.end(rows(interval(1, flow_id=next_id)))
    assert states is not None
    assert states.gradient_rtts[0] == 0


# --- reasoner ----------------------------------------------------------------------------------------------


def state(
    queue: float, gradient: float, loss: float = 0.0, mtp_us: float = 50_000.0, part: float = 1.0
) -> States:
    return States(
        flow_ids=np.array([ID], np.uint64),
        observations=np.zeros((1, 7), np.float32),
        seen={},
        queue_rtts=np.array([queue]),
        gradient_rtts=np.array([gradient]),
        loss_ratio=np.array([loss]),
        smoothed_loss_ratio=np.array([loss]),
        part_ratio=np.array([part]),
        rtt_min_us=np.array([float(RTT_US)]),
        mtp_us=np.array([mtp_us]),
        in_slow_start=np.array([False]),
    )


@pytest.mark.parametrize(
    ("queue", "gradient", "loss", "case", "factor"),
    [
        (0.1, -0.2, 0.0, 1, 2 ** (1 / (1 + math.exp(-1)))),
        (0.1, -1e-12, 0.0, 1, math.sqrt(2)),
        (0.1, -100.0, 0.009, 1, 2.0),
        (0.1, 0.0, 0.0, 2, 1.0),
        (0.2, 0.1, 0.0, 2, math.exp(-0.5)),
        (0.2, -0.1, 0.01, 3, 1.0),
        (0.0, 0.1, 0.5, 3, 1.0),
        (0.201, -0.1, 0.0, 4, math.exp(-1.005)),
        (0.4, 0.1, 0.5, 4, math.exp(-2)),
    ],
)
def test_cases_of_the_slides(queue: float, gradient: float, loss: float, case: int, factor: float) -> None:
    states = state(queue, gradient, loss)
    found = cases(states, ALPHA, DELTA)
    assert found.tolist() == [case]
    assert next_mtp_us(states, found, ALPHA)[0] == pytest.approx(50_000 * factor, rel=1e-9)


@pytest.mark.parametrize(
    ("queue", "loss", "part", "left"),
    [
        (0.4, 0.03, 0.125, 2**-0.4),
        (0.4, 0.03, 0.0625, 2**-0.2),  # who has half as much pays half
        (0.4, 0.5, 1.0, 2**-0.5),  # and nobody more than that
        (0.4, 0.01, 1.0, 1.0),  # losses up to delta are free
        (0.1, 0.03, 0.125, 1.0),  # and those without a queue: case 3
    ],
)
def test_price_of_losses_is_for_what_a_flow_has_of_the_path(
    queue: float, loss: float, part: float, left: float
) -> None:
    states = state(queue, 0.0, loss, part=part)
    assert priced(states, cases(states, ALPHA, DELTA), 160.0, DELTA)[0] == pytest.approx(left)


@pytest.mark.parametrize(
    ("mtp_us", "rtt_min_us", "expected_us"),
    [
        (50_000, 30_000, 50_000),
        (5_000, 1_000, 10_000),
        (5_000, 30_000, 30_000),
        (500_000, 30_000, 200_000),
        (500_000, 300_000, 300_000),
    ],
)
def test_bounds_of_the_mtp(mtp_us: float, rtt_min_us: float, expected_us: float) -> None:
    bounds = Bounds(min_us=10_000, max_us=200_000, min_rtts=1.0)
    assert bounds.clip(np.array([mtp_us]), np.array([rtt_min_us])).tolist() == [expected_us]


# --- algorithms --------------------------------------------------------------------------------------------


def test_registers_are_set_when_the_program_has_started(tmp_path: Path) -> None:
    set_params(Hyvar, {"policy_file": policy_of(tmp_path, 0.0), "mtp_ms": 70.0, "beta": 0.8})
    algorithm = Hyvar()
    algorithm.on_create(FakeInfo(flow_id=ID))
    made = registers(algorithm.on_reports(rows(START), "default"))
    assert (made["mtp_us"], made["learned"], made["cut_permille"]) == (70_000, 0, 800)
    assert "gain_ppm" not in made


def test_policy_alone_has_the_window_from_the_start(tmp_path: Path) -> None:
    set_params(PolicyAlone, {"policy_file": policy_of(tmp_path, 0.0)})
    algorithm = PolicyAlone()
    algorithm.on_create(FakeInfo(flow_id=ID))
    assert registers(algorithm.on_reports(rows(START), "default"))["learned"] == 1


@pytest.mark.parametrize(("action", "gain"), [(0.5, 2**0.5), (-1.0, 0.5), (0.0, 1.0), (2.0, 2.0)])
def test_window_is_multiplied_by_two_to_the_power_of_the_action(
    tmp_path: Path, action: float, gain: float
) -> None:
    algorithm = begun(HybridMtp, tmp_path, action)
    made = registers(algorithm.on_reports(rows(interval(1)), "default"))
    assert made["gain_ppm"] == pytest.approx(PPM * gain, abs=1)


@pytest.mark.parametrize("rtt_us", [RTT_US, 50_000])
def test_hybrid_keeps_its_mtp(tmp_path: Path, rtt_us: int) -> None:
    algorithm = begun(HybridMtp, tmp_path, mtp_ms=40.0)
    for number in (1, 2):
        made = registers(algorithm.on_reports(rows(interval(number, rtt_us)), "default"))
        assert (made["mtp_us"], made["learned"]) == (40_000, 0)


def test_mtp_grows_while_the_queue_drains_and_falls_when_it_is_long(tmp_path: Path) -> None:
    algorithm = begun(Hyvar, tmp_path, mtp_ms=100.0)
    grown = registers(algorithm.on_reports(rows(interval(1, 34_000)), "default"))["mtp_us"]
    drained = interval(2) | {"rtt_sum_us": 20 * 34_000 + 20 * 31_000}
    longer = registers(algorithm.on_reports(rows(drained), "default"))
    assert longer["mtp_us"] > 1.4 * grown
    assert longer["learned"] == 0
    queue = interval(3) | {"rtt_sum_us": 20 * 34_000 + 20 * 31_000 + 20 * 60_000}
    shorter = registers(algorithm.on_reports(rows(queue), "default"))
    assert (shorter["mtp_us"], shorter["learned"]) == (RTT_US, 0), "as short as it may be: a round trip"


@pytest.mark.parametrize(("case4_alone", "learned"), [(True, 1), (False, 0)])
def test_who_has_the_window_at_a_long_queue(tmp_path: Path, case4_alone: bool, learned: int) -> None:
    algorithm = begun(Hyvar, tmp_path, case4_alone=case4_alone)
    made = registers(algorithm.on_reports(rows(interval(1, 60_000)), "default"))
    assert (made["mtp_us"], made["learned"]) == (RTT_US, learned)


def test_policy_has_the_window_alone_at_losses_without_a_queue(tmp_path: Path) -> None:
    algorithm = begun(Hyvar, tmp_path, mtp_ms=100.0)
    lossy = registers(algorithm.on_reports(rows(interval(1, lost=4)), "default"))
    assert (lossy["learned"], lossy["mtp_us"]) == (1, 100_000)
    assert registers(algorithm.on_reports(rows(interval(2, lost=4)), "default"))["learned"] == 0


def test_slow_start_is_left_to_cubic_unless_there_is_a_queue(tmp_path: Path) -> None:
    algorithm = begun(Hyvar, tmp_path, action=-0.5)
    calm = registers(algorithm.on_reports(rows(interval(1, in_slow_start=1)), "default"))
    assert calm["gain_ppm"] == 0
    queue = interval(2, in_slow_start=1) | {"rtt_sum_us": 20 * RTT_US + 20 * 60_000}
    assert registers(algorithm.on_reports(rows(queue), "default"))["gain_ppm"] == pytest.approx(
        PPM * 2**-0.5, abs=1
    )


@pytest.mark.parametrize(("loss_price", "left"), [(160.0, 2**-0.5), (0.0, 1.0)])
def test_losses_at_a_long_queue_cost_the_policy_a_part_of_its_factor(
    tmp_path: Path, loss_price: float, left: float
) -> None:
    algorithm = begun(Hyvar, tmp_path, action=0.5, loss_price=loss_price)
    lossy = interval(1, 60_000, lost=10)  # smoothed 0.04, of all that the path has
    made = registers(algorithm.on_reports(rows(lossy), "default"))
    assert made["gain_ppm"] == pytest.approx(PPM * 2**0.5 * left, abs=1)


def test_reductions_are_answered_as_by_cubic(tmp_path: Path) -> None:
    algorithm = begun(Hyvar, tmp_path)
    reported = {
        "event": CUT,
        "prior_bytes": 80 * MSS,
        "old_w_max_bytes": 100 * MSS,
        "due": 0,
        "now_us": 1_005_000,
    }
    made = registers(algorithm.on_reports(rows(reported), "default"))
    fields = dict.fromkeys(HyvarFold.report_fields, 0) | {"mss_bytes": MSS} | reported
    assert made == CubicAnswers().answer(FakeReport({}, fields, "Hyvar"))
    undone = reported | {"event": UNDO, "old_t_us": 7}
    assert registers(algorithm.on_reports(rows(undone), "default"))["t_us"] == 7


def test_one_batch_has_all_answers(tmp_path: Path) -> None:
    algorithm = begun(Hyvar, tmp_path, action=0.5)
    algorithm.on_create(FakeInfo(flow_id=ID + 1))
    algorithm.on_reports(rows({**START, "flow_id": ID + 1}), "default")
    cut = {"event": CUT, "prior_bytes": 80 * MSS, "due": 0, "now_us": 1_005_000}
    batch = rows(interval(1), cut | {"flow_id": ID + 1}, cut, interval(1, flow_id=ID + 1))
    answers, control = algorithm.on_reports(batch, "default")
    assert sorted(answers.flow_ids.tolist()) == [ID, ID + 1]
    assert set(answers.registers) >= {"w_max_bytes", "k_us"}
    assert sorted(control.flow_ids.tolist()) == [ID, ID + 1]
    assert set(control.registers) == {"mtp_us", "learned", "gain_ppm"}


def test_flows_are_decided_together_as_alone() -> None:
    # With the policy that is shipped.
    together, alone = Hyvar(), [Hyvar() for _ in range(4)]
    for i, one in enumerate(alone):
        for algorithm in (together, one):
            algorithm.on_create(FakeInfo(flow_id=ID + i))
    batches = [[{**START, "flow_id": ID + i} for i in range(4)]]
    for number in range(1, 6):
        batches.append(
            [interval(number, 30_000 + 2_000 * i, lost=i * number // 2, flow_id=ID + i) for i in range(4)]
        )
    for batch in batches:
        whole = together.on_reports(rows(*batch), "default")
        for i, one in enumerate(alone):
            for of_all, of_one in zip(whole, one.on_reports(rows(batch[i]), "default"), strict=True):
                at = of_all.flow_ids.tolist().index(ID + i)
                for name, values in of_one.registers.items():
                    assert int(of_all.registers[name][at]) == pytest.approx(int(values[0]), abs=2)


def test_changed_parameters_reach_all_flows(tmp_path: Path) -> None:
    algorithm = begun(Hyvar, tmp_path)
    algorithm.on_reports(rows(interval(1)), "default")
    Hyvar.beta = 0.9
    made = registers(algorithm.on_params(frozenset({"beta"})))
    assert made["cut_permille"] == 900
    algorithm.on_close(ID)
    assert algorithm.on_params(frozenset({"beta"})) == []


def test_missing_policy_is_refused_aloud(tmp_path: Path) -> None:
    Hyvar.policy_file = str(tmp_path / "none.safetensors")
    with pytest.raises(PolicyError) as caught:
        Hyvar()
    assert caught.value.slug == "policy.missing"


@pytest.mark.parametrize("cls", [Hyvar, HybridMtp, PolicyAlone])
@pytest.mark.parametrize("action", [-1.0, 1.0])
def test_contract_is_kept_whatever_the_policy(tmp_path: Path, cls: Any, action: float) -> None:
    set_params(cls, {"policy_file": policy_of(tmp_path, action)})
    assert check_algorithm(cls, compile).updates > 20


def test_results_with_another_policy_are_others() -> None:
    files = {path.name for path in sources("hyvar")}
    assert {"policy.safetensors", "reasoner.py", "fold.py", "cubic_core.py"} <= files
    assert "policy.safetensors" not in {path.name for path in sources("cubic")}
