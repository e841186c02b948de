"""What the policy sees, by hand; what it answers, against plain arithmetic; and what is refused."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.errors import AlgorithmError
from ccp_algs.hyvar.observation import N_FEATURES, observe
from ccp_algs.hyvar.policy import SHIPPED, PolicyError, load_policy, parse_policy
from tests.unit.ccp_algs.hyvar_weights import ABOUT, constant, file_of, random_weights, save

AMOUNTS = st.just(0.0) | st.floats(1e-6, 1e12)


def seen(**changes: float) -> list[float]:
    usual = {
        "thr_bytes_per_s": 3e6,
        "thr_max_bytes_per_s": 6e6,
        "rtt_us": 40_000,
        "rtt_min_us": 30_000,
        "loss_bytes_per_s": 1e6,
        "cwnd_bytes": 360_000,
        "srtt_us": 60_000,
        "mss_bytes": 1440,
    }
    made = observe(**(usual | changes))
    assert made.shape == (1, N_FEATURES)
    assert made.dtype == np.float32
    return made[0].tolist()  # type: ignore[no-any-return]


def test_observation_is_what_its_table_says() -> None:
    # bdp = 6e6 * 0.03 = 180,000 bytes = 125 segments; the window is twice that.
    expected = [0.5, math.log2(126) / 16, 0.75, math.log2(31) / 12, 0.25, 0.25, 0.5]
    assert seen() == pytest.approx(expected, abs=1e-6)


def test_quotients_that_are_not_defined_have_a_value() -> None:
    nothing = seen(thr_bytes_per_s=0, thr_max_bytes_per_s=0, loss_bytes_per_s=0, rtt_us=0, srtt_us=0)
    assert nothing[0] == nothing[1] == nothing[4] == 0
    assert nothing[2] == nothing[5] == nothing[6] == 1
    assert seen(cwnd_bytes=0)[5] == -1


@given(values=st.lists(AMOUNTS, min_size=8, max_size=8))
def test_every_number_is_from_minus_one_to_one(values: list[float]) -> None:
    names = ("thr", "thr_max", "loss")
    given = {f"{name}_bytes_per_s": value for name, value in zip(names, values, strict=False)}
    given |= dict(zip(("rtt_us", "rtt_min_us", "srtt_us"), values[3:6], strict=True))
    made = observe(**given, cwnd_bytes=values[6], mss_bytes=values[7])
    assert np.isfinite(made).all()
    assert (np.abs(made) <= 1).all()


def test_flows_are_seen_together_as_alone() -> None:
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {name: rng.uniform(1, 1e6, 9) for name in inspect.signature(observe).parameters}
    alone = [observe(**{name: values[i] for name, values in columns.items()})[0] for i in range(9)]
    assert np.array_equal(observe(**columns), np.array(alone))


def test_actions_are_those_of_the_network() -> None:
    weights = random_weights(seed=7)
    policy = parse_policy(file_of(weights), "here")
    observations = np.random.default_rng(1).uniform(-1, 1, (11, 7)).astype(np.float32)
    actions = policy.actions(observations)
    assert actions.shape == (11,)
    for i, row in enumerate(observations.astype(float).tolist()):
        for layer in ("0", "1"):
            weight, bias = weights[f"{layer}.weight"].tolist(), weights[f"{layer}.bias"].tolist()
            sums = [sum(w * x for w, x in zip(of, row, strict=True)) for of in weight]
            row = [math.tanh(value + b) for value, b in zip(sums, bias, strict=True)]
        last = sum(w * x for w, x in zip(weights["2.weight"][0].tolist(), row, strict=True))
        assert actions[i] == pytest.approx(max(-1, min(1, last + float(weights["2.bias"][0]))), abs=1e-5)


def test_actions_are_cut_to_one() -> None:
    observations = np.zeros((1, 7), np.float32)
    assert parse_policy(file_of(constant(3.0)), "here").actions(observations).tolist() == [1.0]
    assert parse_policy(file_of(constant(-3.0)), "here").actions(observations).tolist() == [-1.0]


def test_file_with_its_hash_is_read(tmp_path: Path) -> None:
    policy = load_policy(save(file_of(random_weights()), tmp_path / "mine.safetensors"))
    assert policy.about == ABOUT


def test_shipped_policy_is_whole() -> None:
    assert load_policy(SHIPPED).about["kind"] == "hyvar-policy"


def refused(call: Callable[[], object]) -> AlgorithmError:
    with pytest.raises(PolicyError) as caught:
        call()
    assert caught.value.fix
    return caught.value


def test_refused_when_it_is_missing(tmp_path: Path) -> None:
    error = refused(lambda: load_policy(tmp_path / "none.safetensors"))
    assert error.slug == "policy.missing"
    assert "none.safetensors" in error.where


def test_refused_when_its_hash_is_missing(tmp_path: Path) -> None:
    path = save(file_of(random_weights()), tmp_path / "mine.safetensors")
    path.with_suffix(".sha256").unlink()
    assert refused(lambda: load_policy(path)).slug == "policy.no_hash"


@pytest.mark.parametrize("said", ["", "0" * 64])
def test_refused_when_its_hash_is_another(tmp_path: Path, said: str) -> None:
    path = save(file_of(random_weights()), tmp_path / "mine.safetensors")
    path.with_suffix(".sha256").write_text(said)
    assert refused(lambda: load_policy(path)).slug == "policy.wrong_hash"


def test_refused_when_one_bit_is_another(tmp_path: Path) -> None:
    path = save(file_of(random_weights()), tmp_path / "mine.safetensors")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    assert refused(lambda: load_policy(path)).slug == "policy.wrong_hash"


@pytest.mark.parametrize(
    "about",
    [None, {}, *(ABOUT | {key: "another"} for key in ("kind", "version", "observation"))],
    ids=["none", "empty", "kind", "version", "observation"],
)
def test_refused_when_it_is_of_another_kind(about: dict[str, str] | None) -> None:
    assert refused(lambda: parse_policy(file_of(random_weights(), about), "x")).slug == "policy.wrong_kind"


def without(name: str) -> dict[str, np.ndarray]:
    weights = random_weights()
    del weights[name]
    return weights


@pytest.mark.parametrize(
    "weights",
    [
        without("1.bias"),
        random_weights() | {"3.bias": np.zeros(1)},
        random_weights() | {"0.weight": np.zeros((5, 8))},
        random_weights() | {"1.weight": np.zeros((5, 4))},
        random_weights() | {"2.weight": np.zeros((2, 5)), "2.bias": np.zeros(2)},
        random_weights() | {"0.bias": np.zeros((5, 1))},
    ],
    ids=["missing", "more", "inputs", "between", "outputs", "bias"],
)
def test_refused_when_it_is_another_network(weights: dict[str, np.ndarray]) -> None:
    assert refused(lambda: parse_policy(file_of(weights), "x")).slug == "policy.wrong_shape"


@pytest.mark.parametrize("number", [np.nan, -np.inf, 1e30])
def test_refused_when_a_weight_is_absurd(number: float) -> None:
    weights = random_weights()
    weights["1.bias"][2] = number
    assert refused(lambda: parse_policy(file_of(weights), "x")).slug == "policy.not_finite"


GOOD = file_of(random_weights())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\1\2",
        b"\xff" * 8,
        GOOD[:40],
        GOOD[:-1],
        (2).to_bytes(8, "little") + b"[]",
        (18).to_bytes(8, "little") + b'{"__metadata__":1}',
        file_of(random_weights(), dtype="F64"),
        GOOD.replace(b'"shape": [5, 7]', b'"shape": [5,-7]'),
        GOOD.replace(b'"shape": [5, 7]', b'"shape": "5, 7"'),
        GOOD.replace(b'"data_offsets": [0, 140]', b'"data_offsets": [9, 140]'),
        GOOD.replace(b'"data_offsets": [0, 140]', b'"data_offsets":[-140, 0]'),
    ],
)
def test_refused_when_it_is_damaged(content: bytes) -> None:
    assert content != GOOD
    assert refused(lambda: parse_policy(content, "x")).slug == "policy.not_safetensors"


@given(place=st.integers(0, len(GOOD) - 1), value=st.integers(0, 255))
def test_any_damage_is_refused_or_harmless(place: int, value: int) -> None:
    content = bytearray(GOOD)
    content[place] = value
    try:
        policy = parse_policy(bytes(content), "x")
    except PolicyError:
        return
    assert np.isfinite(policy.actions(np.ones((2, 7), np.float32))).all()
