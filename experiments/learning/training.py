"""Trains a policy by proximal policy optimisation (Schulman et al., 2017), with Stable-Baselines3.

A training run has a directory with its configuration and checkpoints:

    config.json                 the configuration
    reward.py                   the reward function
    checkpoint-00200000.pt      weights and state of the optimiser after that number of steps
    checkpoint-00200000.json    the checkpoint's configuration, seed, steps and hash of the sources

An interrupted training run resumes from its last checkpoint. The worlds then begin new episodes, from a seed
computed from the training's seed and its steps. A resumed run is equivalent to an uninterrupted one but
not identical.

Source: J. Schulman et al., "Proximal policy optimization algorithms", arXiv:1707.06347. The only deviations
are those of Stable-Baselines3, whose defaults apply where `Training` has no field.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import torch
from msgspec import Meta
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from ccp_algs.hyvar import collector, observation
from ccp_algs.hyvar.policy import Policy
from ccplane.base import _native
from experiments.learning.domain import Domain
from experiments.learning.errors import LearningError
from experiments.learning.files import DOMAIN, RewardFile, load_domain, load_reward, named
from experiments.learning.sb3_env import WorldsEnv
from experiments.learning.worlds import Worlds
from experiments.netlab.spec import Plain, PositiveFloat, PositiveInt, Ratio

VERSION: Final = 1
"""Version of the format of checkpoints."""
CONFIG: Final = "config.json"
REWARD: Final = "reward.py"
SHIPPED: Final = "hyvar"
"""Name of the shipped policy's reward."""
KEPT: Final = 3
"""Number of checkpoints to keep."""


class Training(Plain, frozen=True, omit_defaults=False):
    """Configuration of a training run.

    Attributes:
        seed: Seed of weights, actions and paths.
        worlds: Number of parallel worlds.
        steps_per_update: Intervals of each world between two updates of the weights.
        hidden: Width of both hidden layers of the policy.
        value_hidden: Width of those of the value function, which only the training needs.
        learning_rate: Adam's learning rate at the beginning; it falls linearly, to a tenth at the end of a
            run.
        batches: Gradient steps per epoch, each on an equal share of the intervals.
        epochs: Number of passes over the intervals of an update.
        discount: Factor by which a reward one interval later counts less.
        gae: Lambda of the advantage estimate.
        clip: Maximum relative change of an action's probability in an update.
        log_std: Logarithm of the initial standard deviation of actions.
        domain: Distribution of the paths.
        reward_sha256: Hash of the reward file.
    """

    seed: Annotated[int, Meta(ge=0)] = 1
    worlds: PositiveInt = 256
    steps_per_update: PositiveInt = 64
    hidden: PositiveInt = 32
    value_hidden: PositiveInt = 64
    learning_rate: PositiveFloat = 7e-4
    batches: PositiveInt = 4
    epochs: PositiveInt = 5
    discount: Ratio = 0.98
    gae: Ratio = 0.95
    clip: Ratio = 0.2
    log_std: float = -1.0
    domain: Domain = msgspec.field(default_factory=lambda: load_domain(DOMAIN))
    reward_sha256: str = ""


class Progress(Plain, frozen=True):
    """Progress of a training run, over the intervals since the last update.

    Attributes:
        steps: Total steps in all worlds.
        reward: Mean reward.
        utilisation: Mean ratio of throughput to the path's capacity.
        rtt_ratio: Mean ratio of RTT to the empty path's RTT.
        loss_ratio: Mean share of sent bytes that were lost.
    """

    steps: int
    reward: float
    utilisation: float
    rtt_ratio: float
    loss_ratio: float


def source_hash() -> str:
    """Return the SHA-256 of the sources for training: this folder, collector, observation, native module."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    used = (collector, observation, _native)
    for file in (*sorted(folder.glob("*.py")), *(Path(module.__file__ or "") for module in used)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def shipped_reward() -> RewardFile:
    """Return the reward of the shipped policy."""
    return load_reward(named(SHIPPED))


def model_of(training: Training, reward: RewardFile) -> PPO:
    """Return the model to train, with its worlds and initial weights."""
    torch.set_num_threads(1)  # networks this small train slower with more threads
    return PPO(
        "MlpPolicy",
        WorldsEnv(Worlds(training.worlds, training.domain, reward)),
        learning_rate=lambda remaining: training.learning_rate * (0.1 + 0.9 * remaining),
        n_steps=training.steps_per_update,
        batch_size=training.worlds * training.steps_per_update // training.batches,
        n_epochs=training.epochs,
        gamma=training.discount,
        gae_lambda=training.gae,
        clip_range=training.clip,
        policy_kwargs={
            "net_arch": {"pi": [training.hidden] * 2, "vf": [training.value_hidden] * 2},
            "activation_fn": torch.nn.Tanh,
            "log_std_init": training.log_std,
        },
        seed=training.seed,
        device="cpu",
    )


class Trainer:
    """A training run in progress.

    Attributes:
        training: The configuration.
        model: Stable-Baselines3's PPO.
    """

    def __init__(self, training: Training, directory: Path, reward: RewardFile) -> None:
        self.training = training
        self._directory = directory
        self.model = model_of(training, reward)

    @property
    def steps(self) -> int:
        """Total intervals in all worlds."""
        return int(self.model.num_timesteps)

    def run(
        self,
        until_steps: int,
        *,
        checkpoint_every: int,
        reported: Callable[[Progress], None] = lambda progress: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Train, and write a checkpoint at the end.

        Args:
            until_steps: Total number of steps to reach, including previous ones; rounded up to whole updates.
            checkpoint_every: Steps between two checkpoints.
            reported: Called before each update.
            stopped: Called at each step; True stops the training and discards the steps since the last
                update.
        """
        if self.steps >= until_steps:
            return
        watch = _Watch(self, checkpoint_every, reported, stopped)
        self.model.learn(until_steps - self.steps, callback=watch, reset_num_timesteps=self.steps == 0)
        self.save()

    def save(self) -> Path:
        """Write a checkpoint, and return its file.

        Raises:
            LearningError: `learning.cannot_write`.
        """
        about = {
            "version": VERSION,
            "config": msgspec.to_builtins(self.training),
            "seed": self.training.seed,
            "steps": self.steps,
            "source_hash": source_hash(),
            "torch": str(torch.__version__),
        }
        state = {
            "policy": self.model.policy.state_dict(),
            "optimizer": self.model.policy.optimizer.state_dict(),
        }
        file = self._directory / f"checkpoint-{self.steps:09d}.pt"
        try:
            # Write the description last: where it exists, the checkpoint is complete.
            torch.save(state, file.with_suffix(".tmp"))
            os.replace(file.with_suffix(".tmp"), file)
            file.with_suffix(".json").write_bytes(msgspec.json.format(msgspec.json.encode(about)))
            for old in checkpoints(self._directory)[:-KEPT]:
                old.with_suffix(".json").unlink()
                old.unlink()
        except OSError as error:
            raise _cannot_write(file, error) from error
        return file

    def restore(self, file: Path) -> None:
        """Load weights and optimiser from a checkpoint of this training.

        Raises:
            LearningError: `learning.no_checkpoint`, `learning.other_checkpoint`.
        """
        about = read_about(file)
        if training_of(file) != self.training:
            raise LearningError(
                "learning.other_checkpoint",
                "the checkpoint belongs to another training run",
                str(file),
                "the configurations differ",
                "give the directory of the training run that wrote the checkpoint",
            )
        state = torch.load(file, weights_only=True)
        self.model.policy.load_state_dict(state["policy"])
        self.model.policy.optimizer.load_state_dict(state["optimizer"])
        self.model.num_timesteps = about["steps"]
        # Do not repeat episodes that were used already.
        self.model.set_random_seed(self.training.seed + about["steps"])


class _Watch(BaseCallback):  # type: ignore[misc]  # has no types here
    def __init__(
        self,
        trainer: Trainer,
        checkpoint_every: int,
        reported: Callable[[Progress], None],
        stopped: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._trainer = trainer
        self._every = checkpoint_every
        self._next = trainer.steps + checkpoint_every
        self._reported = reported
        self._stopped = stopped
        self._seen: list[tuple[float, ...]] = []

    def _on_step(self) -> bool:
        rows = self.training_env.rows
        sent = rows["thr_bytes_per_s"] + rows["loss_bytes_per_s"]
        self._seen.append(
            (
                rows["reward"].mean(),
                (rows["thr_bytes_per_s"] / rows["path_bytes_per_s"]).mean(),
                (rows["srtt_us"] / rows["path_rtt_us"]).mean(),
                (rows["loss_bytes_per_s"] / sent.clip(1)).mean(),
            )
        )
        return not self._stopped()

    def _on_rollout_end(self) -> None:
        means = (sum(values) / len(values) for values in zip(*self._seen, strict=True))
        self._seen = []
        self._reported(Progress(self._trainer.steps, *map(float, means)))

    def _on_rollout_start(self) -> None:
        if self._trainer.steps >= self._next:
            self._trainer.save()
            self._next += self._every


def actor(state: dict[str, Any]) -> Policy:
    """Return the policy in the `state_dict` of an actor-critic policy of Stable-Baselines3."""
    names = ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2", "action_net")
    return Policy(
        tuple((_array(state[f"{layer}.weight"]), _array(state[f"{layer}.bias"])) for layer in names),
        {},
    )


def _array(tensor: torch.Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().cpu().numpy().astype(np.float32)
    return array


def start(training: Training, directory: Path, reward: RewardFile | None = None) -> Trainer:
    """Begin a training run in a directory.

    Raises:
        LearningError: `learning.exists` if the directory holds a training already, `learning.cannot_write`.
    """
    reward = shipped_reward() if reward is None else reward
    training = msgspec.structs.replace(training, reward_sha256=reward.sha256)
    config = directory / CONFIG
    if config.exists():
        raise LearningError(
            "learning.exists",
            "this directory already holds a training run",
            str(directory),
            fix="resume it (`--resume`), or give another directory",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        config.write_bytes(msgspec.json.format(msgspec.json.encode(msgspec.to_builtins(training))))
        (directory / REWARD).write_text(reward.source)
    except OSError as error:
        raise _cannot_write(directory, error) from error
    return Trainer(training, directory, reward)


def resume(directory: Path) -> Trainer:
    """Resume the training run of a directory from its last checkpoint; this runs its `reward.py`.

    Raises:
        LearningError: `learning.no_checkpoint`, `learning.other_checkpoint`, or as in `load_reward`.
    """
    file = last_checkpoint(directory)
    training, reward = training_of(file), load_reward(directory / REWARD)
    if reward.sha256 != training.reward_sha256:
        raise LearningError(
            "learning.other_checkpoint",
            "the reward was changed since the training run began",
            reward.origin,
            f"the file has the SHA-256 {reward.sha256}, but {CONFIG} says {training.reward_sha256}",
            "restore the file, or begin a new training run with the changed reward",
        )
    trainer = Trainer(training, directory, reward)
    trainer.restore(file)
    return trainer


def training_of(file: Path) -> Training:
    """Return the configuration of a checkpoint; errors as in `read_about`."""
    try:
        return msgspec.convert(read_about(file)["config"], Training)
    except msgspec.ValidationError as error:
        raise _other(file, str(error)) from error


def read_about(file: Path) -> dict[str, Any]:
    """Return the metadata of a checkpoint.

    Raises:
        LearningError: `learning.no_checkpoint` if it does not exist, `learning.other_checkpoint` if it is
            damaged or of another version.
    """
    try:
        about = msgspec.json.decode(file.with_suffix(".json").read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise LearningError(
            "learning.no_checkpoint", "cannot read the checkpoint", str(file), error.strerror or ""
        ) from error
    except msgspec.DecodeError as error:
        raise _other(file, str(error)) from error
    if about.get("version") != VERSION or not {"config", "steps", "seed", "source_hash"} <= about.keys():
        raise _other(file, f"its version is {about.get('version')}, but version {VERSION} is needed")
    return about


def checkpoints(directory: Path) -> list[Path]:
    """Return the complete checkpoints of a directory, the oldest first."""
    return sorted(file for file in directory.glob("checkpoint-*.pt") if file.with_suffix(".json").exists())


def last_checkpoint(directory: Path) -> Path:
    """Return the newest checkpoint of a directory.

    Raises:
        LearningError: `learning.no_checkpoint`.
    """
    found = checkpoints(directory)
    if not found:
        raise LearningError(
            "learning.no_checkpoint",
            "the directory has no checkpoint",
            str(directory),
            fix="give the directory of a training run, or begin a new one without `--resume`",
        )
    return found[-1]


def _other(file: Path, why: str) -> LearningError:
    return LearningError(
        "learning.other_checkpoint",
        "the checkpoint cannot be used",
        str(file),
        why,
        "begin a new training run",
    )


def _cannot_write(file: Path, error: OSError) -> LearningError:
    return LearningError(
        "learning.cannot_write", "cannot write the file", str(file), error.strerror or str(error)
    )
