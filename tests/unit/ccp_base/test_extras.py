"""Missing optional dependencies: the error names the extra."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ccplane.agent.client import Client
from ccplane.base.errors import LoadError
from ccplane.base.extras import EXTRA_OF, extra_part, lacking

PROJECT: dict[str, Any] = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
BROUGHT_BY = {"IPython": "ipykernel", "markupsafe": "jinja2", "torch": "stable-baselines3"}
"""What comes with something else, or something of another name."""


def distributions(requirements: list[str]) -> set[str]:
    names = (re.match(r"[\w-]+", one) for one in requirements)
    return {name[0].replace("-", "_") for name in names if name}


def test_each_extra_brings_what_it_is_said_to_bring() -> None:
    for module, extra in EXTRA_OF.items():
        name = BROUGHT_BY.get(module, module).replace("-", "_")
        assert name in distributions(PROJECT["optional-dependencies"][extra]), module


def test_what_an_extra_brings_is_known_and_is_not_there_without() -> None:
    brought = set().union(
        *(distributions(PROJECT["optional-dependencies"][extra]) for extra in set(EXTRA_OF.values()))
    )
    assert brought - {"ccplane"} <= set(EXTRA_OF) | {"jupyterlab", *BROUGHT_BY.values()}
    assert not distributions(PROJECT["dependencies"]) & set(EXTRA_OF)


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(LoadError) as caught, extra_part():
        import pandas  # noqa: F401
    assert caught.value.slug == "load.no_extra"
    assert caught.value.fix.endswith("pip install 'ccplane[lab]'")


def test_flows_as_a_data_frame_want_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(LoadError) as caught:
        Client.__new__(Client).flows()  # before any agent is asked
    assert caught.value.slug == "load.no_extra"
    assert "ccplane[lab]" in caught.value.fix


def test_the_command_has_the_path_of_pip_where_the_shell_finds_another_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "pip"
    own.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))

    def fix() -> str:
        reported = lacking(ModuleNotFoundError(name="pandas"))
        assert reported is not None
        return reported.fix

    monkeypatch.setenv("PATH", str(tmp_path))
    assert fix() == "pip install 'ccplane[lab]'"
    monkeypatch.setenv("PATH", "/nowhere")
    assert fix() == f"{own} install 'ccplane[lab]'"
    own.unlink()
    assert fix() == "pip install 'ccplane[lab]'"


def test_what_no_extra_brings_is_pythons_own_error() -> None:
    with pytest.raises(ModuleNotFoundError), extra_part():
        import nowhere_to_be_found  # noqa: F401


@pytest.mark.parametrize("command", [["paper", "flex-cubic", "--quick", "--dry-run"], ["simulate", "cubic"]])
def test_a_command_says_what_it_lacks(command: list[str], tmp_path: Path) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from ccplane.agent.entry import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode != 0
    assert "load.no_extra" in ended.stderr
    assert "ccplane[lab]" in ended.stderr
    assert "Traceback" not in ended.stderr
