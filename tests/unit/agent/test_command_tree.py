"""The tree of `ccp`: its front page, examples that parse, and one name for each concept."""

from __future__ import annotations

import shlex
from collections import defaultdict
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from ccplane.agent import cli, front

ROOT: Any = typer.main.get_command(cli.app)


CONTEXT = ROOT.make_context("ccp", [], resilient_parsing=True)
COMMANDS = {
    path: command
    for path, command in front.tree(ROOT, CONTEXT)
    if path and (not hasattr(command, "list_commands") or command.invoke_without_command)
}
"""All commands that run something, by their path."""


def ccp(*arguments: str) -> str:
    return " ".join(CliRunner().invoke(cli.app, arguments).output.split())


def examples(command: Any) -> list[str]:
    lines = (command.epilog or "").split("\n\n")
    return [line.replace("\\[", "[") for line in lines[1:]] if lines[0] == "Examples:" else []


def test_the_first_screen_has_panels_and_names_the_second() -> None:
    first, second = ccp("--help"), ccp("help", "--all")
    for title in front.FIRST.values():
        assert (f"─ {title} ─" in first) == (title != "Other packages")
    for title in front.SECOND.values():
        assert f"─ {title} ─" not in first
        assert f"─ {title} ─" in second
    assert "ccp help --all" in first


def test_the_front_page_shows_the_help_of_each_command() -> None:
    for entry in (front.own() | front.plugins()).values():
        assert front.summary(entry).split("\n\n")[0] == (front.loaded(entry).help or "").split("\n\n")[0], (
            entry
        )


def test_help_shows_what_a_commands_own_help_shows() -> None:
    assert ccp("help", "telemetry", "node") == ccp("telemetry", "node", "--help")


def test_only_ccp_itself_offers_completion() -> None:
    for path, command in front.tree(ROOT, CONTEXT):
        assert not path or "install_completion" not in {one.name for one in command.params}, path


def test_unknown_commands_are_refused_with_a_suggestion() -> None:
    refused = ccp("lod")
    assert "command.unknown" in refused
    assert "`ccp` has no command `lod`" in refused
    assert "did you mean `load`" in refused
    assert "`receive`" in ccp("telemetry", "recieve")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_a_sentence_with_examples_that_parse(name: str) -> None:
    command = COMMANDS[name]
    assert (command.help or "").strip()
    assert (command.help or "")[0].isupper()
    shown = examples(command)
    assert 1 <= len(shown) <= 3, "one or two examples"
    for one in shown[:1]:
        words = shlex.split(one, comments=True)
        while words[0] in ("sudo", "wireshark", "tshark"):
            words = words[1:] if words[0] == "sudo" else ["ccp", *name.split()]
        words = words[
            : next((at for at, word in enumerate(words) if word in ("|", "&&") or word[0] in "<>"), None)
        ]
        assert words[: len(name.split()) + 1] == ["ccp", *name.split()], one
        command.make_context(name, words[len(name.split()) + 1 :])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help(name: str) -> None:
    for one in COMMANDS[name].params:
        if one.name != "help" and not one.hidden:
            assert one.help, one.name


CONCEPTS = {
    ("-t", "--seconds"): {"--duration", "--for", "--time", "--run-for", "--length"},
    ("-o", "--out"): {"--output", "--export", "--picture", "--plot", "--in", "--out-dir", "--directory"},
    ("-p", "--param"): {"--set", "--setting", "--parameter", "--regime-set"},
    ("-a", "--algorithm"): {"--alg", "--from", "--algo"},
    ("-w", "--watch"): {"--once", "--follow", "--live"},
    (None, "--json"): {"--as-json"},
    (None, "--sender"): {"--host-name", "--sender-name"},
    (None, "--connect"): {"--agent-address", "--endpoint"},
    (None, "--dry-run"): {"--print", "--plan", "--show"},
    (None, "--match"): {"--where", "--filter"},
}
"""Short and long name of each concept, and names that nothing else may give to it."""


def test_each_concept_has_one_name() -> None:
    for name, command in COMMANDS.items():
        for one in command.params:
            for (short, long), others in CONCEPTS.items():
                assert not others & set(one.opts), f"ccp {name} {one.opts}: it is {long}"
                if long in one.opts and short is not None:
                    assert short in one.opts, f"ccp {name} {long} lacks {short}"


def test_each_short_flag_means_one_thing() -> None:
    meanings: dict[str, set[str]] = defaultdict(set)
    for command in COMMANDS.values():
        for one in command.params:
            for opt in one.opts:
                if len(opt) == 2:
                    meanings[opt] |= {next((o for o in one.opts if o.startswith("--")), opt)}
    assert {opt: names for opt, names in meanings.items() if len(names) > 1} == {}


def test_units_are_values_and_not_names_of_options() -> None:
    for name, command in COMMANDS.items():
        for one in command.params:
            for opt in one.opts:
                assert not opt.startswith("--") or not opt.endswith(
                    ("-ms", "-us", "-s", "-mbit", "-kbit", "-bytes", "-mb", "-kb", "-per-s")
                ), f"ccp {name} {opt}"


def test_the_usual_options_come_first() -> None:
    for name in ("run", "serve-ccp"):
        usual = [one for one in COMMANDS[name].params if one.param_type_name == "option"]
        usual = [one for one in usual if one.rich_help_panel is None and one.name != "help"]
        assert len(usual) <= 12, [one.name for one in usual]
