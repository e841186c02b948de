"""Commands of other packages, and commands missing in a wheel."""

from __future__ import annotations

from importlib import metadata

import pytest
import typer
from typer.testing import CliRunner, Result

from ccplane.agent import cli, front
from ccplane.agent.features import ENTRY_POINTS, features
from ccplane.agent.front import Entry
from ccplane.base.errors import CcpError


def ccp(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


plugged = typer.Typer()


@plugged.command()
def hello(name: str) -> None:
    """Greet."""
    typer.echo(f"hello {name}")


@plugged.command()
def fail() -> None:
    """Fail."""
    raise CcpError("plug.in", "did not work", fix="try again")


def plug(monkeypatch: pytest.MonkeyPatch, *entries: Entry) -> None:
    monkeypatch.setattr(cli, "plugins", lambda: {one.path: one for one in entries})


def test_plugin_command_runs_and_its_errors_are_shown_like_own(monkeypatch: pytest.MonkeyPatch) -> None:
    plug(
        monkeypatch, Entry("extra", f"{__name__}:plugged"), Entry("group.greet", f"{__name__}:plugged.hello")
    )
    monkeypatch.setattr(front, "import_module", lambda name: __import__("sys").modules[__name__])
    monkeypatch.setattr(front, "_source", lambda module: None)
    assert "hello world" in ccp("extra", "hello", "world").output
    assert "hello world" in ccp("group", "greet", "world").output
    failed = ccp("extra", "fail")
    assert failed.exit_code == 1
    assert "plug.in: did not work" in failed.output
    listed = ccp("--help").output
    assert "Other packages" in listed
    assert "extra" in listed


@pytest.mark.parametrize("value", ["no.such.module:app", "json:loads"], ids=["import error", "no typer app"])
def test_broken_plugin_is_reported_and_breaks_no_other_command(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug(monkeypatch, Entry("extra", value))
    listed = ccp("--help")
    assert listed.exit_code == 0
    assert "extra" in listed.output
    assert "cannot be loaded" in listed.output
    assert ccp("algorithms").exit_code == 0
    broken = ccp("extra", "anything", "--at", "all")
    assert broken.exit_code == 1
    assert "command.broken" in broken.output
    assert value in broken.output
    assert "Traceback" not in broken.output


def test_plugin_cannot_take_the_place_of_our_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    plug(monkeypatch, Entry("doctor", "no.such.module:app"))
    assert "cannot be loaded" not in ccp("doctor", "--help").output


def test_plugins_are_those_of_features_and_of_the_entry_point_groups() -> None:
    found = front.plugins()
    assert found["experiment"].panel == "experiment"
    assert found["telemetry.receive"].value == "telemetry.commands:app"
    for feature in features():
        for panel, commands in feature.commands.items():
            assert {path: found[path].panel for path in commands} == dict.fromkeys(commands, panel)


def test_a_command_that_the_wheel_lacks_is_not_listed_and_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plug(monkeypatch, Entry("paper", "experiments.no_such_folder.commands:app", "research", shipped=True))
    assert "paper" not in ccp("help", "--all").output
    refused = ccp("paper", "all")
    assert refused.exit_code == 1
    assert "command.not_in_wheel" in refused.output


def test_a_feature_that_does_not_import_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = metadata.EntryPoint("other", "no.such.module:FEATURE", ENTRY_POINTS)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [broken] if group == ENTRY_POINTS else [])
    features.cache_clear()
    try:
        assert len(features()) > 0
    finally:
        features.cache_clear()
    assert "no.such.module" in caplog.text
