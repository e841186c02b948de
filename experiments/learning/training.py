"""Trains a policy by proximal policy optimisation (Schulman et al., 2017), with Stable-Baselines3.

A training has a directory. In it are its configuration, and checkpoints:

    config.json                 what is trained, and on what
    reward.py                   what is good
    checkpoint-00200000.pt      weights and state of the optimiser after so many steps
    checkpoint-00200000.json    configuration, seed, steps and hash of the sources of the checkpoint

A training that was stopped goes on from its last checkpoint. The worlds then begin new episodes, from a seed
that follows from the training's and the steps done: the same as without the stop, but not the same packets.

Source: J. Schulman et al., "Proximal policy optimization algorithms", arXiv:1707.06347. Deviation: none but
those of Stable-Baselines3, whose defaults hold where `Training` has no field.
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
"""Of checkpoints."""
CONFIG: Final = "config.json"
REWARD: Final = "reward.py"
SHIPPED: Final = "hyvar"
"""Name of the reward of the policy that comes with ccplane."""
KEPT: Final = 3
"""So many checkpoints stay."""


class Training(Plain, frozen=True, omit_defaults=False):
    """What is trained, and how.

    Attributes:
        seed: Of weights, actions and paths.
        worlds: How many at once.
        steps_per_update: Intervals of each world between two updates of the weights.
        hidden: Width of both hidden layers of the policy.
        value_hidden: Width of those of the value function, which is needed for training only.
        learning_rate: Of Adam, at the beginning; it falls linearly, to a tenth at the end of a run.
        batches: Gradients in an epoch, each of as many intervals.
        epochs: How often each interval is used.
        discount: What a reward an interval later is worth.
        gae: Lambda of the advantage estimate.
        clip: How far an update may move the probability of an action.
        log_std: Logarithm of the standard deviation of the first actions.
        domain: Paths.
        reward_sha256: Hash of the file that says what is good.
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
    """How a training goes, over the intervals since the last update.

    Attributes:
        steps: Done so far, in all worlds.
        reward: Mean.
        utilisation: Throughput by what the path carries, mean.
        rtt_ratio: RTT by that of the empty path, mean.
        loss_ratio: Share of what was sent that was lost, mean.
    """

    steps: int
    reward: float
    utilisation: float
    rtt_ratio: float
    loss_ratio: float


def source_hash() -> str:
    """Return the SHA-256 of what trainings depend on: sources here, collector, observation, compiled part."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    used = (collector, observation, _native)
    for file in (*sorted(folder.glob("*.py")), *(Path(module.__file__ or "") for module in used)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def shipped_reward() -> RewardFile:
    """Return what the policy that comes with ccplane was trained with."""
    return load_reward(named(SHIPPED))


def model_of(training: Training, reward: RewardFile) -> PPO:
    """Return what is trained, with its worlds and its initial weights."""
    torch.set_num_threads(1)  # more than one costs more than it gains with networks this small
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
    """A training that is under way.

    Attributes:
        training: What is trained.
        model: Stable-Baselines3's PPO.
    """

    def __init__(self, training: Training, directory: Path, reward: RewardFile) -> None:
        """Begin a training, or go on with that of the directory: see `start` and `resume`."""
        self.training = training
        self._directory = directory
        self.model = model_of(training, reward)

    @property
    def steps(self) -> int:
        """Intervals done so far, in all worlds."""
        return int(self.model.num_timesteps)

    def run(
        self,
        until_steps: int,
        *,
        checkpoint_every: int,
        told: Callable[[Progress], None] = lambda progress: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Train, and leave a checkpoint at the end.

        Args:
            until_steps: In total, with what was done before; whole updates, at least so many.
            checkpoint_every: Leave a checkpoint each time so many steps were done.
            told: Called in front of each update.
            stopped: Asked in each step: whether to stop. What was done since the last update is lost then.
        """
        if self.steps >= until_steps:
            return
        watch = _Watch(self, checkpoint_every, told, stopped)
        self.model.learn(until_steps - self.steps, callback=watch, reset_num_timesteps=self.steps == 0)
        self.save()

    def save(self) -> Path:
        """Leave a checkpoint, and return its file.

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
            # A checkpoint that is there is whole: the description comes last.
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
        """Take weights and optimiser of a checkpoint of this training.

        Raises:
            LearningError: `learning.no_checkpoint`, `learning.other_checkpoint`.
        """
        about = read_about(file)
        if training_of(file) != self.training:
            raise LearningError(
                "learning.other_checkpoint",
                "the checkpoint is one of another training",
                str(file),
                "its configuration is another",
                "give the directory of that training",
            )
        state = torch.load(file, weights_only=True)
        self.model.policy.load_state_dict(state["policy"])
        self.model.policy.optimizer.load_state_dict(state["optimizer"])
        self.model.num_timesteps = about["steps"]
        # What comes is not what was learned from already.
        self.model.set_random_seed(self.training.seed + about["steps"])


class _Watch(BaseCallback):  # type: ignore[misc]  # has no types here
    """Progress, checkpoints, the wish to stop."""

    def __init__(
        self,
        trainer: Trainer,
        checkpoint_every: int,
        told: Callable[[Progress], None],
        stopped: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._trainer = trainer
        self._every = checkpoint_every
        self._next = trainer.steps + checkpoint_every
        self._told = told
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
        self._told(Progress(self._trainer.steps, *map(float, means)))

    def _on_rollout_start(self) -> None:
        if self._trainer.steps >= self._next:
            self._trainer.save()
            self._next += self._every


def actor(state: dict[str, Any]) -> Policy:
    """Return the policy of an actor and critic of Stable-Baselines3, as of `state_dict`."""
    names = ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2", "action_net")
    return Policy(
        tuple((_array(state[f"{layer}.weight"]), _array(state[f"{layer}.bias"])) for layer in names),
        {},
    )


def _array(tensor: torch.Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().cpu().numpy().astype(np.float32)
    return array


def start(training: Training, directory: Path, reward: RewardFile | None = None) -> Trainer:
    """Begin a training in a directory.

    Args:
        training: What is trained; `reward_sha256` is filled in.
        directory: Where.
        reward: What is good; that of the policy that comes with ccplane, if None.

    Raises:
        LearningError: `learning.exists` if one was begun there, `learning.cannot_write`.
    """
    reward = shipped_reward() if reward is None else reward
    training = msgspec.structs.replace(training, reward_sha256=reward.sha256)
    config = directory / CONFIG
    if config.exists():
        raise LearningError(
            "learning.exists",
            "a training was begun in this directory already",
            str(directory),
            fix="go on with it (`--resume`), or give another directory",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        config.write_bytes(msgspec.json.format(msgspec.json.encode(msgspec.to_builtins(training))))
        (directory / REWARD).write_text(reward.source)
    except OSError as error:
        raise _cannot_write(directory, error) from error
    return Trainer(training, directory, reward)


def resume(directory: Path) -> Trainer:
    """Go on with the training of a directory, from its last checkpoint; its `reward.py` runs.

    Raises:
        LearningError: `learning.no_checkpoint`, `learning.other_checkpoint`, or as `load_reward`.
    """
    file = last_checkpoint(directory)
    training, reward = training_of(file), load_reward(directory / REWARD)
    if reward.sha256 != training.reward_sha256:
        raise LearningError(
            "learning.other_checkpoint",
            "the reward is another than at the beginning",
            reward.origin,
            f"it has the SHA-256 {reward.sha256}, {CONFIG} says {training.reward_sha256}",
            "put the file back, or begin a training anew with it",
        )
    trainer = Trainer(training, directory, reward)
    trainer.restore(file)
    return trainer


def training_of(file: Path) -> Training:
    """Return what a checkpoint is one of; raises as `read_about`."""
    try:
        return msgspec.convert(read_about(file)["config"], Training)
    except msgspec.ValidationError as error:
        raise _other(file, str(error)) from error


def read_about(file: Path) -> dict[str, Any]:
    """Return what a checkpoint says of itself.

    Raises:
        LearningError: `learning.no_checkpoint` if it is not there, `learning.other_checkpoint` if it is of
        another
            version, or damaged.
    """
    try:
        about = msgspec.json.decode(file.with_suffix(".json").read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise LearningError(
            "learning.no_checkpoint", "there is no such checkpoint", str(file), error.strerror or ""
        ) from error
    except msgspec.DecodeError as error:
        raise _other(file, str(error)) from error
    if about.get("version") != VERSION or not {"config", "steps", "seed", "source_hash"} <= about.keys():
        raise _other(file, f"it is of version {about.get('version')}, this is version {VERSION}")
    return about


def checkpoints(directory: Path) -> list[Path]:
    """Return the whole checkpoints of a directory, the oldest first."""
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
            "there is no checkpoint",
            str(directory),
            fix="give the directory of a training, or begin one without `--resume`",
        )
    return found[-1]


def _other(file: Path, why: str) -> LearningError:
    return LearningError(
        "learning.other_checkpoint", "the checkpoint cannot be used", str(file), why, "begin a training anew"
    )


def _cannot_write(file: Path, error: OSError) -> LearningError:
    return LearningError(
        "learning.cannot_write", "cannot be written", str(file), error.strerror or str(error)
    )
