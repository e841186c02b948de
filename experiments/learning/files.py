"""Domains and rewards as files: those that ccplane ships, and the user's, in the same form.

A domain is YAML with the fields of `experiments.learning.domain.Domain`. A reward is a Python module with a
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
"""The domain on which the shipped policy was trained."""
REWARDS: Final = Path(__file__).parent / "rewards"

_TRIED: Final = Domain(traced_share=0.0, lossy_share=1.0, episode_us=2_000_000)
_TRIED_WORLDS: Final = 8
_TRIED_STEPS: Final = 4
_FUNCTION: Final = "define `reward(rows)`, as in the output of `ccp train reward hyvar`"


def shipped() -> dict[str, Path]:
    """Return the shipped rewards, by name."""
    return {file.stem: file for file in sorted(REWARDS.glob("[a-z]*.py"))}


def named(name: str) -> Path:
    """Return the file of a shipped reward.

    Raises:
        LearningError: `learning.no_file`.
    """
    found = shipped()
    if name not in found:
        raise LearningError(
            "learning.no_file",
            f"ccplane ships no reward named `{name}`",
            name,
            fix=close_names(name, list(found), "name"),
        )
    return found[name]


def text_of(file: Path) -> str:
    """Return the text of a file.

    Raises:
        LearningError: `learning.no_file`.
    """
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise LearningError(
            "learning.no_file", "cannot read the file", str(file), why, "check the path"
        ) from error


def load_domain(file: Path) -> Domain:
    """Read a domain from a file.

    Raises:
        LearningError: `learning.no_file`; `learning.bad_domain`, if the domain is impossible.
        ScenarioError: `scenario.syntax`, `scenario.bad_field`; one exception carries all errors.
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
    """A reward and its source.

    Attributes:
        source: The source text.
        origin: Where the text comes from, for errors.
        module: The module that the source makes when it runs.
    """

    source: str
    origin: str
    module: types.ModuleType

    @property
    def sha256(self) -> str:
        """Return the hash of the text."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    def __call__(self, rows: NDArray[np.void]) -> NDArray[np.float64]:
        """Return the reward of each interval.

        Raises:
            LearningError: `learning.bad_reward`, with the line that failed.
        """
        try:
            with np.errstate(divide="ignore", invalid="ignore"):  # `Worlds` checks for finite values
                rewards: NDArray[np.float64] = self.module.reward(rows)
        except CcpError:
            raise
        except Exception as error:
            raise _failed(self.origin, error) from error
        return rewards


def load_reward(file: Path) -> RewardFile:
    """Run the file of a reward, and try the reward on a few intervals.

    Raises:
        LearningError: `learning.no_file`; `learning.bad_reward`, if the file has no such function, or the
            function fails or does not return a finite number for each interval.
    """
    source, origin = text_of(file), str(file)
    module = types.ModuleType(f"reward_{file.stem}")
    try:
        exec(compile(source, origin, "exec", dont_inherit=True), module.__dict__)
    except Exception as error:
        raise _failed(origin, error) from error
    if not callable(getattr(module, "reward", None)):
        raise LearningError("learning.bad_reward", "the file has no function `reward`", origin, fix=_FUNCTION)
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
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == origin]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    return LearningError(
        "learning.bad_reward",
        "the reward function failed",
        f"{origin}:{line}" if line else origin,
        f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}",
        "docs/learning.md lists the fields of `rows`; each is an array of n numbers",
    )
