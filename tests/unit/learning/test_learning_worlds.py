from __future__ import annotations

import dataclasses
import inspect
import threading
from typing import Any

import msgspec
import numpy as np
import pytest

from ccp_algs.hyvar.algorithms import Hyvar as Algorithm
from ccp_algs.hyvar.collector import States
from ccp_algs.hyvar.observation import observe
from ccp_algs.hyvar.policy import SHIPPED, Policy, load_policy
from ccp_algs.hyvar.reasoner import Bounds, cases, next_mtp_us
from ccp_algs.params import params_of
from experiments.learning.domain import Domain, Hyvar, single_path, traces_ms
from experiments.learning.errors import LearningError
from experiments.learning.rewards import fair, hyvar, slides
from experiments.learning.worlds import COLUMNS, Worlds
from experiments.units import MBIT
from tests.unit.learning.small import SMALL

SEEN = tuple(inspect.signature(observe).parameters)


def random_actions(n: int, steps: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.6, 0.6, (steps, n)).astype(np.float32)


def played(worlds: Worlds, seed: int, steps: int = 60) -> np.ndarray:
    rows = [worlds.reset(seed)]
    rows += [worlds.step(actions) for actions in random_actions(worlds.n, steps)]
    return np.stack(rows)


def test_the_columns_are_those_that_are_documented() -> None:
    rows = Worlds(1, SMALL).reset(1)
    assert rows.dtype.names is not None
    assert set(rows.dtype.names) == set(COLUMNS)


def test_a_seed_gives_the_same_bytes_and_another_one_others() -> None:
    assert played(Worlds(4, SMALL), 7).tobytes() == played(Worlds(4, SMALL), 7).tobytes()
    assert played(Worlds(4, SMALL), 7).tobytes() != played(Worlds(4, SMALL), 8).tobytes()


def test_worlds_have_nothing_to_do_with_each_other() -> None:
    together = played(Worlds(4, SMALL), 7)
    alone = Worlds(1, SMALL)
    rows = [alone.reset(9)]
    rows += [alone.step(actions[2]) for actions in random_actions(4, 60)]
    assert np.stack(rows)[:, 0].tobytes() == together[:, 2].tobytes()


def test_observations_are_those_of_the_runtime() -> None:
    rows = played(Worlds(8, SMALL), 11, 100).reshape(-1)
    expected = observe(**{name: rows[name] for name in SEEN})
    np.testing.assert_allclose(rows["observation"], expected, atol=1e-6)
    # Something of everything has been there.
    assert (rows["loss_bytes_per_s"] > 0).any()
    assert np.ptp(rows["observation"], axis=0).min() > 0.01


SHARED = msgspec.structs.replace(
    SMALL,
    cross_bbr_share=0.5,
    peers_max=3,
    peered_share=0.6,
    late_share=0.5,
    late_us=(100e3, 1e6),
    aqm_share=0.3,
    policed_share=0.2,
    adaptive_share=1.0,
)
"""Everything that paths of more than one connection have."""


def judged(rows: np.ndarray) -> np.ndarray:
    return rows[(rows["interval_us"] > 0) & (rows["rtt_us"] > 0) & (rows["reward"] != 0)]


@pytest.mark.parametrize(
    ("reward", "best_thr", "best_rtt", "least"),
    [
        (slides.reward, lambda rows: rows["thr_max_bytes_per_s"], "rtt_min_us", -10),
        (
            hyvar.reward,
            lambda rows: np.maximum(rows["path_bytes_per_s"], rows["thr_bytes_per_s"]),
            "path_rtt_us",
            -1,
        ),
    ],
)
def test_rewards_are_those_of_the_formula(reward: Any, best_thr: Any, best_rtt: str, least: int) -> None:
    rows = judged(played(Worlds(8, SMALL, reward), 13, 60)[1:].reshape(-1))
    beyond = np.maximum(rows["rtt_us"] / rows[best_rtt], 1)
    gained = (rows["thr_bytes_per_s"] - 5 * rows["loss_bytes_per_s"]) / best_thr(rows)
    np.testing.assert_allclose(rows["reward"], np.maximum(gained / beyond, least), rtol=1e-5, atol=1e-6)


def test_a_fair_reward_gives_nothing_for_what_is_others() -> None:
    rows = judged(played(Worlds(16, SHARED, fair.reward), 17, 60)[1:].reshape(-1))
    assert (rows["path_flows"] > 1).any()
    np.testing.assert_allclose(rows["fair_bytes_per_s"], rows["path_bytes_per_s"] / rows["path_flows"])
    whole = rows[(rows["thr_bytes_per_s"] > rows["fair_bytes_per_s"]) & (rows["loss_bytes_per_s"] == 0)]
    beyond = np.clip(whole["rtt_us"] / whole["path_rtt_us"], 1, fair.MOST_BEYOND)
    np.testing.assert_allclose(whole["reward"], 1 / beyond, rtol=1e-5)
    part = rows[(rows["thr_bytes_per_s"] < rows["fair_bytes_per_s"]) & (rows["loss_bytes_per_s"] == 0)]
    assert len(part) > 10
    assert (part["reward"] < 1).all()


@pytest.mark.parametrize(("reward", "bounds"), [(slides.reward, (0.9, 1.0)), (hyvar.reward, (0.0, 0.2))])
def test_a_flow_that_was_never_fast_is_praised_by_its_own_yardstick_only(
    reward: Any, bounds: tuple[float, float]
) -> None:
    path = single_path(rate_bytes_per_s=20 * MBIT, rtt_us=40e3, mtp_us=80e3)
    worlds = Worlds(1, msgspec.structs.replace(path, steered_share=1.0), reward)
    worlds.reset(1)
    # 10 segments a round trip; the path would take 67.
    mean = np.mean([worlds.step([0.0])["reward"][0] for _ in range(50)])
    assert bounds[0] < mean < bounds[1]


def test_mtp_and_who_has_the_window_are_those_of_the_runtime() -> None:
    worlds = Worlds(16, SHARED)
    rows = [worlds.reset(19)]
    rows += [worlds.step(actions) for actions in random_actions(16, 80)]
    told = np.stack(rows)
    checked = 0
    for world in range(16):
        queue_rtts, mtp_us, own = 0.0, np.nan, told[:, world]
        for row in own:
            if row["interval_us"] == row["now_us"] or np.isnan(mtp_us):  # an episode begins
                queue_rtts, mtp_us = np.nan, row["mtp_us"]
            if row["reward"] == 0:
                queue_rtts = np.nan
            before_rtts = queue_rtts
            if row["rtt_us"] > 0:
                queue_rtts = max(row["rtt_us"] / row["rtt_min_us"] - 1, 0)
            if np.isfinite(before_rtts) and row["over"] == 0:
                checked += 1
                case, next_us, alone = reasoned(row, queue_rtts, queue_rtts - before_rtts, mtp_us)
                assert row["case"] == case
                assert row["mtp_us"] == pytest.approx(next_us)
                assert row["alone"] == alone
            mtp_us = row["mtp_us"]
    assert checked > 500
    assert set(told["case"][told["case"] > 0].tolist()) == {1, 2, 3, 4}


def reasoned(row: np.void, queue_rtts: float, gradient_rtts: float, mtp_us: float) -> tuple[int, float, bool]:
    """Return case, next MTP and whether the policy is alone, as `hyvar` has it."""
    of = Hyvar()
    sent = row["thr_bytes_per_s"] + row["loss_bytes_per_s"]
    arrays = {
        "queue_rtts": queue_rtts,
        "gradient_rtts": gradient_rtts,
        "loss_ratio": row["loss_bytes_per_s"] / max(sent, 1.0),
        "mtp_us": mtp_us,
    }
    nothing = np.zeros(1)
    states = States(
        **{field.name: nothing for field in dataclasses.fields(States)}  # type: ignore[arg-type]
        | {name: np.array([value]) for name, value in arrays.items()}
    )
    case = cases(states, of.alpha_rtts, of.delta_ratio)
    bounds = Bounds(1000 * of.mtp_min_ms, 1000 * of.mtp_max_ms, of.mtp_min_rtts)
    least_us = np.array([float(row["rtt_min_us"])])
    found_us = bounds.clip(next_mtp_us(states, case, of.alpha_rtts), least_us)
    shortest_us = bounds.clip(nothing, least_us)
    alone = case[0] == 3 or (of.case4_alone and case[0] == 4 and found_us[0] <= shortest_us[0])
    return int(case[0]), float(found_us[0]), bool(alone)


def test_the_runtimes_parameters_are_those_of_hyvar() -> None:
    params = params_of(Algorithm)
    assert msgspec.to_builtins(Hyvar()) == {name: params[name].default for name in Hyvar.__struct_fields__}


def test_peers_act_by_the_policy_that_is_set() -> None:
    crowd = msgspec.structs.replace(
        single_path(rate_bytes_per_s=40 * MBIT, rtt_us=20e3), peers_max=1, peered_share=1.0, steered_share=1.0
    )

    def queue_us(policy: Policy | None) -> float:
        worlds = Worlds(4, crowd)
        if policy is not None:
            worlds.set_peers(policy)
        worlds.reset(3)
        rows = [worlds.step(np.zeros(4)) for _ in range(300)][150:]
        assert (rows[-1]["path_peers"] > 0).all()
        return float(np.mean([row["srtt_us"] - row["path_rtt_us"] for row in rows]))

    # One that always doubles its window fills the buffer; without any, 10 segments of 66 stay as they are.
    zero = np.zeros((1, 7), np.float32)
    doubling = Policy(((zero, np.ones(1, np.float32)),), {})
    assert queue_us(doubling) > 5e3 > 2e3 > queue_us(None)


def test_a_seed_gives_the_same_bytes_on_shared_paths() -> None:
    def one() -> bytes:
        worlds = Worlds(6, SHARED, fair.reward)
        worlds.set_peers(load_policy(SHIPPED))
        return played(worlds, 23, 40).tobytes()

    assert one() == one()


@pytest.mark.parametrize("wrong", [lambda rows: 1.0, lambda rows: np.full(len(rows), np.nan)])
def test_rewards_that_are_no_numbers_are_refused(wrong: Any) -> None:
    worlds = Worlds(2, SMALL, wrong)
    worlds.reset(1)
    with pytest.raises(LearningError) as caught:
        worlds.step([0.0, 0.0])
    assert caught.value.slug == "learning.bad_reward"


def test_an_action_multiplies_the_window() -> None:
    path = single_path(rate_bytes_per_s=20 * MBIT, rtt_us=40e3, mtp_us=40e3)
    worlds = Worlds(1, path)
    worlds.reset(1)
    for _ in range(40):
        before = worlds.step([0.0])
    after = worlds.step([-1.0])
    assert after["cwnd_bytes"][0] == pytest.approx(before["cwnd_bytes"][0] / 2, rel=0.1)
    # The path carries less, and its queue has gone, one round trip later.
    later = worlds.step([0.0])
    assert later["rtt_us"][0] < before["rtt_us"][0]


def test_cubic_fills_the_path_and_its_buffer_when_nobody_acts() -> None:
    path = single_path(rate_bytes_per_s=20 * MBIT, rtt_us=40e3, mtp_us=40e3)
    worlds = Worlds(1, path)
    worlds.reset(1)
    rows = np.concatenate([worlds.step([0.0]) for _ in range(200)])[50:]
    assert (rows["thr_bytes_per_s"] / rows["path_bytes_per_s"]).mean() > 0.95
    assert rows["rtt_us"].max() > 1.5 * 40e3
    assert rows["rtt_us"].max() < 2.2 * 40e3


def test_nothing_moves_the_window_between_actions_when_the_policy_is_alone() -> None:
    path = single_path(rate_bytes_per_s=20 * MBIT, rtt_us=40e3, mtp_us=40e3)
    worlds = Worlds(1, msgspec.structs.replace(path, steered_share=1.0))
    first = worlds.reset(1)
    assert first["steered"][0] == 1
    assert {worlds.step([0.0])["cwnd_bytes"][0] for _ in range(20)} == {first["cwnd_bytes"][0]}
    assert worlds.step([1.0])["cwnd_bytes"][0] == 2 * first["cwnd_bytes"][0]


def test_an_episode_ends_after_its_time_and_the_next_one_is_on_another_path() -> None:
    worlds = Worlds(1, SMALL)
    first = worlds.reset(1)
    rows = [worlds.step([0.0])]
    while not rows[-1]["over"][0]:
        rows.append(worlds.step([0.0]))
    length_us = rows[-1]["now_us"][0] - first["now_us"][0] + first["interval_us"][0]
    assert length_us == pytest.approx(3e6)
    assert sum(row["interval_us"][0] for row in rows) + first["interval_us"][0] == pytest.approx(3e6)
    second = worlds.step([0.0])
    assert second["reward"][0] == 0
    assert second["path_rtt_us"][0] != first["path_rtt_us"][0]


def test_time_stands_still_where_it_is_not_wanted() -> None:
    worlds, other = Worlds(2, SMALL), Worlds(2, SMALL)
    worlds.reset(1)
    other.reset(1)
    skipped = worlds.step([0.3, 0.3], where=np.array([True, False]))
    assert skipped["interval_us"][1] == 0
    both = other.step([0.3, 0.3])
    assert skipped[0].tobytes() == both[0].tobytes()
    assert worlds.step([0.0, 0.3])[1].tobytes() == both[1].tobytes()


def test_paths_differ_as_the_domain_says() -> None:
    rows = Worlds(300, Domain(episode_us=300_000, rate_bytes_per_s=(1e5, 1e6))).reset(1)
    assert 0.12 < (rows["path_loss_ratio"] > 0).mean() < 0.28
    assert 0.12 < rows["path_traced"].mean() < 0.28
    assert 0.17 < (rows["path_cross_flows"] > 0).mean() < 0.33
    assert rows["mtp_us"].min() < 15e3
    assert rows["mtp_us"].max() > 150e3


def test_a_domain_without_traces_draws_none() -> None:
    assert traces_ms(Domain(traced_share=0.0)) == ()
    assert len(traces_ms(SMALL)) == 3


def test_other_threads_run_meanwhile() -> None:
    worlds = Worlds(8, Domain(mtp_us=(2e6, 2e6), traced_share=0.0))
    done, counted = threading.Event(), 0

    def step() -> None:
        worlds.reset(1)
        worlds.step(np.zeros(8))
        done.set()

    thread = threading.Thread(target=step)
    thread.start()
    while not done.is_set():
        counted += 1
    thread.join()
    # If the lock were held there would be a few looks at most: one a switch interval, at the two ends.
    assert counted > 1000


@pytest.mark.parametrize(
    "domain",
    [
        Domain(rate_bytes_per_s=(2.0, 1.0)),
        Domain(loss_ratio=(0.1, 0.9)),
        Domain(lossy_share=1.5),
        Domain(episode_us=1000),
        Domain(policed_ratio=(0.5, 2.0)),
        Domain(hyvar=Hyvar(alpha_rtts=-1.0)),
    ],
)
def test_what_cannot_be_is_refused(domain: Domain) -> None:
    with pytest.raises(LearningError) as caught:
        Worlds(1, domain)
    assert caught.value.slug == "learning.bad_domain"


def test_no_worlds_are_refused() -> None:
    with pytest.raises(LearningError) as caught:
        Worlds(0)
    assert caught.value.slug == "learning.bad_domain"
