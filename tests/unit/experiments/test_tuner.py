"""The tuner: what an arm is worth, how it follows, what its guard does; and once over a simulated path."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.demo import tuning
from experiments.demo.tuner import BARRED_S, TURN_S, Arm, Params, Totals, Tuner, totals_of, worth

ARMS = (Arm("safe", {"k": 1.0}), Arm("bold", {"k": 2.0}))


def drive(goodput: dict[float, float], lost: dict[float, float], seconds: float) -> Tuner:
    """Let a tuner steer what has these packets a second, and this share of them lost, by k."""
    now = {"k": 0.0}

    def set_params(params: Params) -> None:
        now.update(params)

    tuner = Tuner(ARMS, set_params)
    delivered = gone = 0.0
    for tick in range(round(seconds * 10)):
        tuner.turn(Totals(tick / 10, round(1500 * delivered), round(delivered), round(gone)))
        rate = goodput[now["k"]] / 10
        delivered += rate
        gone += rate * lost[now["k"]]
    return tuner


def share_of(tuner: Tuner, name: str, seconds: float) -> float:
    """Return for how much of the time an arm was in use."""
    ends = [*(t_s for t_s, _, _ in tuner.chosen[1:]), seconds]
    return (
        sum(end - t_s for (t_s, arm, _), end in zip(tuner.chosen, ends, strict=True) if arm == name) / seconds
    )


def test_goodput_counts_less_what_is_lost_five_times() -> None:
    assert worth(Totals(0, 0, 0, 0), Totals(2, 3_000, 90, 10)) == pytest.approx(1_500 * 0.5)
    assert worth(Totals(0, 0, 0, 0), Totals(2, 3_000, 50, 50)) == 0


def test_the_better_arm_is_used_most() -> None:
    tuner = drive({1.0: 1_000, 2.0: 4_000}, {1.0: 0.0, 2.0: 0.0}, 60)
    assert tuner.chosen[0][1] == "safe"
    assert share_of(tuner, "bold", 60) > 0.6


def test_guard_takes_the_safe_arm_at_once_and_bars_the_other() -> None:
    tuner = drive({1.0: 1_000, 2.0: 4_000}, {1.0: 0.0, 2.0: 0.3}, 12)
    at = next(place for place, (_, _, guarded) in enumerate(tuner.chosen) if guarded)
    began_s, ended_s = tuner.chosen[at - 1][0], tuner.chosen[at][0]
    assert ended_s - began_s < TURN_S
    assert tuner.chosen[at][1] == "safe"
    later = [t_s for t_s, arm, _ in tuner.chosen[at + 1 :] if arm == "bold"]
    assert not later or later[0] >= ended_s + BARRED_S


def test_totals_are_those_of_all_flows_of_the_client() -> None:
    flows = pd.DataFrame({"bytes_acked": [10, 20], "delivered_pkts": [1, 2], "lost_pkts": [0, 3]})
    assert totals_of(flows, 7.0) == Totals(7.0, 30, 3, 3)


def test_tuner_steers_a_simulated_flow() -> None:
    result, chosen = tuning.tuned(tuning.scenario(phase_s=4.0))
    assert {name for _, name, _ in chosen} >= {"CUBIC", "k 2"}
    assert result.flows["received_bytes"].sum() > 0
