from __future__ import annotations

import threading
from typing import Any

import msgspec
import numpy as np
import pytest

from experiments.learning.domain import Domain, single_path
from experiments.learning.errors import LearningError
from experiments.learning.rewards import hyvar, slides
from experiments.learning.worlds import COLUMNS, Worlds
from experiments.units import MBIT
from tests.unit.learning.small import SMALL


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


def judged(rows: np.ndarray) -> np.ndarray:
    return rows[(rows["interval_us"] > 0) & (rows["rtt_us"] > 0) & (rows["reward"] != 0)]


@pytest.mark.parametrize(
    ("reward", "best_thr", "best_rtt", "minimum"),
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
def test_rewards_are_those_of_the_formula(reward: Any, best_thr: Any, best_rtt: str, minimum: int) -> None:
    rows = judged(played(Worlds(8, SMALL, reward), 13, 60)[1:].reshape(-1))
    beyond = np.maximum(rows["rtt_us"] / rows[best_rtt], 1)
    gained = (rows["thr_bytes_per_s"] - 5 * rows["loss_bytes_per_s"]) / best_thr(rows)
    np.testing.assert_allclose(rows["reward"], np.maximum(gained / beyond, minimum), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("reward", "bounds"), [(slides.reward, (0.9, 1.0)), (hyvar.reward, (0.0, 0.2))])
def test_a_flow_that_was_never_fast_is_praised_by_its_own_yardstick_only(
    reward: Any, bounds: tuple[float, float]
) -> None:
    path = single_path(rate_bytes_per_s=20 * MBIT, rtt_us=40e3, mtp_us=80e3)
    worlds = Worlds(1, msgspec.structs.replace(path, steered_share=1.0), reward)
    worlds.reset(1)
    # 10 segments per round trip; the path could carry 67.
    mean = np.mean([worlds.step([0.0])["reward"][0] for _ in range(50)])
    assert bounds[0] < mean < bounds[1]


@pytest.mark.parametrize("wrong", [lambda rows: 1.0, lambda rows: np.full(len(rows), np.nan)])
def test_rewards_that_are_no_numbers_are_refused(wrong: Any) -> None:
    worlds = Worlds(2, SMALL, wrong)
    worlds.reset(1)
    with pytest.raises(LearningError) as caught:
        worlds.step([0.0, 0.0])
    assert caught.value.slug == "learning.bad_reward"


PATH = single_path(rate_bytes_per_s=20 * MBIT, rtt_us=40e3, mtp_us=40e3)
"""69 segments of 1,448 bytes, and as much in the buffer."""
STEERED = msgspec.structs.replace(PATH, steered_share=1.0)


def test_an_action_multiplies_the_window() -> None:
    worlds = Worlds(1, PATH)
    worlds.reset(1)
    for _ in range(40):
        before = worlds.step([0.0])
    after = worlds.step([-1.0])
    assert after["cwnd_bytes"][0] == pytest.approx(before["cwnd_bytes"][0] / 2, rel=0.1)
    # The path carries less, and its queue has drained, one round trip later.
    later = worlds.step([0.0])
    assert later["rtt_us"][0] < before["rtt_us"][0]


def test_cubic_fills_the_path_and_its_buffer_when_none_acts() -> None:
    worlds = Worlds(1, PATH)
    worlds.reset(1)
    rows = np.concatenate([worlds.step([0.0]) for _ in range(200)])[50:]
    assert (rows["thr_bytes_per_s"] / rows["path_bytes_per_s"]).mean() > 0.95
    assert rows["rtt_us"].max() > 1.5 * 40e3
    assert rows["rtt_us"].max() < 2.2 * 40e3


def test_nothing_moves_the_window_between_actions_when_the_policy_is_alone() -> None:
    worlds = Worlds(1, STEERED)
    first = worlds.reset(1)
    assert first["steered"][0] == 1
    assert {worlds.step([0.0])["cwnd_bytes"][0] for _ in range(20)} == {first["cwnd_bytes"][0]}
    assert worlds.step([1.0])["cwnd_bytes"][0] == 2 * first["cwnd_bytes"][0]


def begun(path: Domain) -> tuple[Worlds, np.void]:
    worlds = Worlds(1, path)
    return worlds, worlds.reset(1)[0]


def steps(worlds: Worlds, actions: float, n: int) -> np.ndarray:
    return np.concatenate([worlds.step([actions]) for _ in range(n)])


def test_a_window_of_the_paths_product_fills_it_without_a_queue() -> None:
    worlds, _ = begun(STEERED)
    for action in (1.0, 1.0, np.log2(66 / 40), 0.0):
        worlds.step([action])
    rows = steps(worlds, 0.0, 50)[5:]
    # 65 of 66.7, and delayed ACKs make the round trip longer.
    assert 0.92 < (rows["thr_bytes_per_s"] / rows["path_bytes_per_s"]).mean() < 0.98
    assert rows["rtt_us"].max() < 42.5e3


def test_actions_of_less_than_a_segment_add_up() -> None:
    worlds, _ = begun(STEERED)
    # 10 segments times 2^(0.05 * 20) are 20.
    last = steps(worlds, 0.05, 20)[-1]
    assert 19 <= last["cwnd_bytes"] / last["mss_bytes"] <= 20


def test_a_window_that_is_lowered_stays_there_under_cubic() -> None:
    worlds, _ = begun(PATH)
    before, lowered = steps(worlds, 0.0, 100)[-1], steps(worlds, -1.0, 1)[0]
    assert lowered["cwnd_bytes"] < 0.55 * before["cwnd_bytes"]
    # It neither runs back to W_max nor begins another slow start: C t^3 after 1 s is less than a segment.
    assert steps(worlds, 0.0, 25)[-1]["cwnd_bytes"] < 1.5 * lowered["cwnd_bytes"]


def test_an_interval_without_an_ack_is_longer() -> None:
    # A burst of 10 segments per round trip of 40 ms: most intervals of 1 ms have no report.
    worlds, _ = begun(msgspec.structs.replace(STEERED, mtp_us=(1e3, 1e3)))
    rows = steps(worlds, 0.0, 50)
    assert (rows["thr_bytes_per_s"] > 0).all()
    assert (rows["rtt_us"] > 0).all()
    assert rows["interval_us"].max() > 20e3


def test_a_window_has_limits() -> None:
    worlds, _ = begun(STEERED)
    assert steps(worlds, 1.0, 31)[-1]["cwnd_bytes"] <= 4 * 200e3 + 2 * 1448
    assert steps(worlds, -1.0, 41)[-1]["cwnd_bytes"] == 2 * 1448


def test_a_policer_and_a_managed_queue_bound_what_cubic_gets_and_queues() -> None:
    plain, policed, managed = (
        steps(begun(msgspec.structs.replace(PATH, **more))[0], 0.0, 200)[50:]
        for more in (
            {},
            {"policed_share": 1.0, "policed_ratio": (0.5, 0.5), "policer_us": (16e3, 16e3)},
            {"aqm_share": 1.0, "aqm_target_us": (5e3, 5e3)},
        )
    )
    assert policed["path_bytes_per_s"].max() < 1.25e6
    assert policed["thr_bytes_per_s"].mean() < 1.25e6
    assert managed["rtt_us"].mean() - 40e3 < 0.6 * (plain["rtt_us"].mean() - 40e3)


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
    # If the lock were held, there would be only a few samples, at the two ends.
    assert counted > 1000


@pytest.mark.parametrize(
    "domain",
    [
        Domain(rate_bytes_per_s=(2.0, 1.0)),
        Domain(loss_ratio=(0.1, 0.9)),
        Domain(lossy_share=1.5),
        Domain(episode_us=1000),
        Domain(policed_ratio=(0.5, 2.0)),
        Domain(rtt_us=(1.0, float("inf"))),
        Domain(lossy_share=-0.1),
        Domain(buffer_bdp=(0.0, 1.0)),
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
