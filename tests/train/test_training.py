from __future__ import annotations

import hashlib
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from ccp_algs.hyvar.policy import load_policy
from experiments.learning import export, training
from experiments.learning.errors import LearningError
from experiments.learning.evaluation import Contender, evaluate
from experiments.learning.files import named
from experiments.learning.rewards import hyvar
from experiments.learning.training import Progress, Training
from tests.train.short import SHORT

STEPS = 16_384
UPDATE = SHORT.worlds * SHORT.steps_per_update
TINY = msgspec.structs.replace(SHORT, worlds=4, steps_per_update=16, batches=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("training")
    trainer = training.start(SHORT, directory)
    trainer.run(STEPS, checkpoint_every=4 * UPDATE)
    return directory


def observations(n: int = 200) -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, (n, 7)).astype(np.float32)


def test_training_improves_on_the_initial_weights(trained: Path) -> None:
    before = export.initial_policy(SHORT).actions
    after = export.policy_at(training.last_checkpoint(trained)).actions
    found = evaluate(
        {"before": Contender(before), "after": Contender(after)}, SHORT.domain, hyvar.reward, n_paths=16
    )
    rewards = found.pivot(index="path", columns="contender", values="reward")
    gain = rewards["after"] - rewards["before"]
    assert gain.mean() > 0.03
    assert (gain > 0).mean() > 0.7


def test_a_reloaded_checkpoint_acts_identically(trained: Path, tmp_path: Path) -> None:
    checkpoint = training.last_checkpoint(trained)
    again = training.resume(trained)
    assert again.steps == STEPS
    seen = observations()
    expected, _ = again.model.predict(seen, deterministic=True)
    exported = tmp_path / "policy.safetensors"
    export.export(checkpoint, exported)
    np.testing.assert_allclose(load_policy(exported).actions(seen), expected[:, 0], atol=1e-6)
    with torch.no_grad():
        values = again.model.policy.predict_values(torch.as_tensor(seen))
        assert torch.equal(
            values, training.resume(trained).model.policy.predict_values(torch.as_tensor(seen))
        )


def test_checkpoints_name_configuration_seed_and_sources(trained: Path) -> None:
    kept = training.checkpoints(trained)
    assert 1 < len(kept) <= training.KEPT
    about = training.read_about(kept[-1])
    reward = named("hyvar").read_bytes()
    assert (trained / "reward.py").read_bytes() == reward
    hashed = hashlib.sha256(reward).hexdigest()
    assert msgspec.convert(about["config"], Training) == msgspec.structs.replace(SHORT, reward_sha256=hashed)
    assert about["seed"] == SHORT.seed
    assert about["steps"] == STEPS
    assert about["source_hash"] == training.source_hash()
    assert json.loads((trained / "config.json").read_text())["hidden"] == SHORT.hidden


def test_a_policy_names_what_it_comes_from(trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.safetensors"
    digest = export.export(training.last_checkpoint(trained), file)
    assert file.with_suffix(".sha256").read_text().split() == [digest, file.name]
    about = load_policy(file).about
    assert json.loads(about["trained"]) == {"steps": STEPS, "seed": SHORT.seed}
    assert len(json.loads(about["config"])["reward_sha256"]) == 64
    assert about["source_hash"] == training.source_hash()


def test_a_stopped_training_goes_on_where_it_was(tmp_path: Path) -> None:
    trainer = training.start(TINY, tmp_path)
    reported: list[Progress] = []

    trainer.run(10_000, checkpoint_every=10_000, reported=reported.append, stopped=lambda: len(reported) == 2)
    assert [progress.steps for progress in reported] == [64, 128]
    stopped = trainer.steps
    assert 128 <= stopped < 200
    weights = trainer.model.policy.state_dict()
    again = training.resume(tmp_path)
    assert again.steps == stopped
    assert all(torch.equal(weights[name], value) for name, value in again.model.policy.state_dict().items())
    again.run(stopped + 64, checkpoint_every=10_000)
    assert again.steps >= stopped + 64
    assert training.read_about(training.last_checkpoint(tmp_path))["steps"] == again.steps


def test_the_same_seed_trains_the_same_weights(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        trainer = training.start(TINY, tmp_path / name)
        trainer.run(128, checkpoint_every=10_000)
        found.append(trainer.model.policy.state_dict())
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())


def test_going_on_with_another_reward_is_refused(tmp_path: Path) -> None:
    training.start(TINY, tmp_path).save()
    file = tmp_path / "reward.py"
    file.write_text(file.read_text() + "# changed")
    with pytest.raises(LearningError) as caught:
        training.resume(tmp_path)
    assert caught.value.slug == "learning.other_checkpoint"


def test_a_second_training_in_a_directory_is_refused(tmp_path: Path) -> None:
    training.start(TINY, tmp_path)
    with pytest.raises(LearningError) as caught:
        training.start(TINY, tmp_path)
    assert caught.value.slug == "learning.exists"


def test_going_on_needs_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(LearningError) as caught:
        training.resume(tmp_path)
    assert caught.value.slug == "learning.no_checkpoint"
    with pytest.raises(LearningError) as caught:
        training.read_about(tmp_path / "checkpoint-1.pt")
    assert caught.value.slug == "learning.no_checkpoint"


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    trainer = training.start(TINY, tmp_path / "a")
    file = trainer.save()
    other = training.Trainer(msgspec.structs.replace(TINY, seed=9), tmp_path, training.shipped_reward())
    with pytest.raises(LearningError) as caught:
        other.restore(file)
    assert caught.value.slug == "learning.other_checkpoint"
    about = json.loads(file.with_suffix(".json").read_text())
    for damaged in ({**about, "version": 99}, {**about, "config": {"seed": -1}}):
        file.with_suffix(".json").write_text(json.dumps(damaged))
        with pytest.raises(LearningError) as caught:
            training.resume(tmp_path / "a")
        assert caught.value.slug == "learning.other_checkpoint"
    file.with_suffix(".json").write_text("{")
    with pytest.raises(LearningError) as caught:
        training.resume(tmp_path / "a")
    assert caught.value.slug == "learning.other_checkpoint"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LearningError) as caught:
        training.start(TINY, tmp_path / "file")
    assert caught.value.slug == "learning.cannot_write"
    trainer = training.start(TINY, tmp_path / "training")
    with pytest.raises(LearningError) as caught:
        export.export(trainer.save(), tmp_path / "nowhere" / "policy.safetensors")
    assert caught.value.slug == "learning.cannot_write"
