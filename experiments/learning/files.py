"""Domains and rewards as files that people edit: those that come with ccplane, and others of the same form.

A domain is YAML, the fields of `experiments.learning.domain.Domain`. A reward is Python, a module with a
function `reward`: see `experiments.learning.rewards`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import traceback
import types
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ccplane.base.errors import CcpError
from ccplane.base.names import close_names
from experiments.learning.domain import Domain
from experiments.learning.errors import LearningError
from experiments.learning.worlds import Worlds
from experiments.runs import reading

DOMAIN: Final = Path(__file__).parent / "domains/hyvar.yaml"
"""What the policy that comes with ccplane met."""
REWARDS: Final = Path(__file__).parent / "rewards"

_TRIED: Final = Domain(traced_share=0.0, lossy_share=1.0, episode_us=2_000_000)
_TRIED_WORLDS: Final = 8
_TRIED_STEPS: Final = 4
_FUNCTION: Final = "give it `def reward(rows):`, as `ccp train reward hyvar` shows"


def shipped() -> dict[str, Path]:
    """Return the rewards that come with ccplane, by name."""
    return {file.stem: file for file in sorted(REWARDS.glob("[a-z]*.py"))}


def named(name: str) -> Path:
    """Return the file of a reward that comes with ccplane.

    Raises:
        LearningError: `learning.no_file`.
    """
    found = shipped()
    if name not in found:
        raise LearningError(
            "learning.no_file",
            f"there is no `{name}` among the rewards that come with ccplane",
            name,
            fix=close_names(name, list(found), "name"),
        )
    return found[name]


def text_of(file: Path) -> str:
    """Return what a file says.

    Raises:
        LearningError: `learning.no_file`.
    """
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise LearningError(
            "learning.no_file", "the file cannot be read", str(file), why, "check the path"
        ) from error


def load_domain(file: Path) -> Domain:
    """Return the domain that a file describes.

    Raises:
        LearningError: `learning.no_file`; `learning.bad_domain`, if it cannot be.
        ScenarioError: `scenario.syntax`, `scenario.bad_field`; several at once, if more than one is wrong.
    """
    raw = reading.parse_yaml(text_of(file), str(file))
    domain = reading.convert({} if raw is None else raw, Domain, str(file))
    try:
        Worlds(1, domain)
    except LearningError as error:
        where = f"{file}: {error.where}" if error.where else str(file)
        raise LearningError(error.slug, error.message, where, error.why, error.fix) from error
    return domain


@dataclasses.dataclass(frozen=True)
class RewardFile:
    """A reward, and the text that it is made of.

    Attributes:
        source: The text.
        origin: Where it comes from, for errors.
        module: What it is when it has run.
    """

    source: str
    origin: str
    module: types.ModuleType

    @property
    def sha256(self) -> str:
        """Return the hash of the text."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    def __call__(self, rows: NDArray[np.void]) -> NDArray[np.float64]:
        """Return the rewards of intervals.

        Raises:
            LearningError: `learning.bad_reward`, with the line at which it failed.
        """
        try:
            with np.errstate(divide="ignore", invalid="ignore"):  # not finite: `Worlds` refuses that
                rewards: NDArray[np.float64] = self.module.reward(rows)
        except CcpError:
            raise
        except Exception as error:
            raise _failed(self.origin, error) from error
        return rewards


def load_reward(file: Path) -> RewardFile:
    """Return the reward of a file, which runs; it is tried on a few intervals.

    Raises:
        LearningError: `learning.no_file`; `learning.bad_reward`, if it has no such function, fails, or gives
            something else than a finite number for each interval.
    """
    source, origin = text_of(file), str(file)
    module = types.ModuleType(f"reward_{file.stem}")
    try:
        exec(compile(source, origin, "exec", dont_inherit=True), module.__dict__)
    except Exception as error:
        raise _failed(origin, error) from error
    if not callable(getattr(module, "reward", None)):
        raise LearningError("learning.bad_reward", "there is no function `reward`", origin, fix=_FUNCTION)
    found = RewardFile(source, origin, module)
    worlds = Worlds(_TRIED_WORLDS, _TRIED, found)
    try:
        worlds.reset(0)
        for _ in range(_TRIED_STEPS):
            worlds.step(np.zeros(_TRIED_WORLDS))
    except LearningError as error:
        raise LearningError(error.slug, error.message, error.where or origin, error.why, error.fix) from error
    return found


def _failed(origin: str, error: Exception) -> LearningError:
    """Return an error with the line of the file at which another one was raised."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == origin]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    return LearningError(
        "learning.bad_reward",
        "the reward fails",
        f"{origin}:{line}" if line else origin,
        f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}",
        "fields of `rows` are those of docs/learning.md; arrays of n numbers",
    )
