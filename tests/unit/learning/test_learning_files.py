from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ccplane.base.errors import CcpError, Several
from experiments.learning.commands import app
from experiments.learning.domain import Domain
from experiments.learning.errors import LearningError
from experiments.learning.files import DOMAIN, load_domain, load_reward, named, shipped
from experiments.learning.rewards import hyvar
from experiments.learning.worlds import Worlds
from tests.unit.learning.small import SMALL


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_shipped_domain_is_what_the_shipped_policy_met() -> None:
    # The same values as in the model card and in the metadata of the policy file.
    assert load_domain(DOMAIN) == Domain(steered_share=0.4)


def test_what_is_printed_is_a_file_to_begin_from(tmp_path: Path) -> None:
    domain = tmp_path / "mine.yaml"
    domain.write_text(printed("domain"))
    assert load_domain(domain) == load_domain(DOMAIN)
    for name, file in shipped().items():
        mine = tmp_path / "mine.py"
        mine.write_text(printed("reward", name))
        assert load_reward(mine).sha256 == load_reward(file).sha256
    assert printed("reward") == printed("reward", "hyvar")


def test_a_reward_of_a_file_is_that_of_its_function() -> None:
    def played(reward: object) -> np.ndarray:
        worlds = Worlds(4, SMALL, reward)  # type: ignore[arg-type]
        worlds.reset(1)
        return np.stack([worlds.step(np.full(4, 0.1)) for _ in range(20)])

    found = played(load_reward(named("hyvar")))
    assert found.tobytes() == played(hyvar.reward).tobytes()


def test_an_unknown_name_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(LearningError) as caught:
        named("slide")
    assert caught.value.slug == "learning.no_file"
    assert "slides" in caught.value.fix


@pytest.mark.parametrize("load", [load_domain, load_reward])
def test_a_missing_file_is_named(load: object, tmp_path: Path) -> None:
    with pytest.raises(LearningError) as caught:
        load(tmp_path / "none")  # type: ignore[operator]
    assert caught.value.slug == "learning.no_file"
    assert str(tmp_path / "none") in caught.value.where


def refused_domain(tmp_path: Path, text: str) -> CcpError:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(CcpError) as caught:
        load_domain(file)
    assert str(file) in str(caught.value)
    return caught.value


def test_what_is_wrong_with_a_domain_is_said_with_its_field(tmp_path: Path) -> None:
    assert refused_domain(tmp_path, "rtt_us: [1").slug == "scenario.syntax"
    unknown = refused_domain(tmp_path, "trace: 3")
    assert "trace" in unknown.where
    assert "traces" in unknown.fix
    both = refused_domain(tmp_path, "rtt_us: 10\ntraces: no")
    assert isinstance(both, Several)
    assert ["rtt_us" in both.errors[0].where, "traces" in both.errors[1].where] == [True, True]
    backwards = refused_domain(tmp_path, "rtt_us: [2e4, 1e4]")
    assert backwards.slug == "learning.bad_domain"
    assert backwards.where.endswith("mine.yaml: rtt_us")


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("def reward(rows):\n    return (", ":2", "SyntaxError"),
        ("import nothing_of_that_name", ":1", "ModuleNotFoundError"),
        ("rewards = 1", "", ""),
        ("def reward(rows):\n    return rows['thr']", ":2", "thr"),
        ("def reward(rows):\n    return 1.0", "", "shape ()"),
        ("def reward(rows):\n    return rows['rtt_us'] / 0", "", "not all finite"),
    ],
)
def test_what_is_wrong_with_a_reward_is_said_with_its_line(
    text: str, line: str, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(LearningError) as caught:
        load_reward(file)
    assert caught.value.slug == "learning.bad_reward"
    assert caught.value.where == f"{file}{line}"
    assert why in caught.value.why
