"""Write the reference of `ccp` from the code: commands, errors, scenarios, cards, man page, completion.

`make commands` runs it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import typer.main
from typer._completion_shared import get_completion_script

from ccplane.agent import cli, events, front, messages
from ccplane.agent.cli import MORE
from scripts import cards, metric_table, scenario_page, suites

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs/cli.md"
ERRORS: Final = ROOT / "docs/errors.md"
SHARE: Final = ROOT / "wheel/data/share"
"""Goes into a wheel as it is, and below the prefix of what installs it."""
MAN: Final = SHARE / "man/man1/ccp.1"
COMPLETION: Final = {
    "bash": SHARE / "bash-completion/completions/ccp",
    "zsh": SHARE / "zsh/site-functions/_ccp",
    "fish": SHARE / "fish/vendor_completions.d/ccp.fish",
}

EXIT: Final = {
    "0": "Success.",
    "1": "A request was wrong, or a check failed.",
    "2": "The datapath cannot be loaded or is not loaded, or an option is unknown.",
    "130": "Interrupted by Ctrl-C.",
}

_WITHOUT: Final = {"help", "install_completion", "show_completion"}


@dataclass(frozen=True, slots=True)
class Option:
    """An option or argument.

    Attributes:
        names: How it is written, with its value.
        help: Its help, and its default.
    """

    names: str
    help: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        path: Its words after `ccp`.
        panel: Title of its panel.
        usage: The whole usage line.
        help: Paragraphs of its help.
        options: Arguments and options in the order of its help.
        examples: Command lines.
    """

    path: str
    panel: str
    usage: str
    help: tuple[str, ...]
    options: tuple[Option, ...]
    examples: tuple[str, ...]


def commands() -> list[Command]:
    """Return all commands, panel by panel."""
    root: Any = typer.main.get_command(cli.app)
    context = root.make_context("ccp", [], resilient_parsing=True)
    panels = {name: root.get_command(context, name).rich_help_panel for name in root.list_commands(context)}
    return [
        _command(command, path, panels[path.split()[0]])
        for path, command in front.tree(root, context)
        if path and (not hasattr(command, "list_commands") or command.invoke_without_command)
    ]


def _command(whole: Any, path: str, panel: str) -> Command:
    shown = [one for one in whole.params if one.name not in _WITHOUT and not one.hidden]
    arguments = [one for one in shown if one.param_type_name == "argument"]
    words = ["ccp", path, *(["[OPTIONS]"] if len(shown) > len(arguments) else [])]
    words += [_argument(one) for one in arguments]
    panels = sorted(shown, key=lambda one: (one.param_type_name != "argument", one.rich_help_panel or ""))
    lines = (whole.epilog or "").split("\n\n")
    return Command(
        path=path,
        panel=panel,
        usage=" ".join(words),
        help=tuple(" ".join(part.split()) for part in (whole.help or "").split("\n\n")),
        options=tuple(Option(_names(one), _help(one)) for one in panels),
        examples=tuple(line.replace("\\[", "[") for line in lines[1:]),
    )


def _argument(one: Any) -> str:
    name = (one.metavar or one.name.upper()).removesuffix("...")
    name += "..." if one.nargs != 1 else ""
    return name if one.required else f"[{name}]"


def _names(one: Any) -> str:
    if one.param_type_name == "argument":
        return _argument(one)
    names = sorted([*one.opts, *one.secondary_opts], key=lambda opt: opt.startswith("--"))
    kind = "N" if "int" in str(one.type_descriptor.annotation) else "VALUE"
    value = "" if one.is_flag else f" {one.metavar or kind}"
    return ", ".join(names) + value


def _help(one: Any) -> str:
    text = " ".join((one.help or "").replace("\\[", "[").split())
    if isinstance(one.show_default, str):
        return f"{text} [default: {one.show_default}]"
    value = one.default
    if getattr(one, "is_flag", False) and one.secondary_opts:
        return f"{text} [default: {(one.opts if value else one.secondary_opts)[0]}]"
    if not one.show_default or value in (None, False, "", ()) or callable(value):
        return text
    shown = value.value if isinstance(value, Enum) else value
    return f"{text} [default: {shown}]"


# --- the page -----------------------------------------------------------------------------------------------


def described_at(all_commands: list[Command]) -> dict[str, str]:
    """Return, for each command with options, the first command with the same options."""
    first: dict[tuple[Option, ...], str] = {}
    return {one.path: first.setdefault(one.options, one.path) for one in all_commands if one.options}


def page(all_commands: list[Command]) -> str:
    """Return the reference page."""
    parts = [
        "# Commands\n",
        "<!-- Written by `make commands` from the help of the commands. -->\n",
        "Durations, rates and sizes take units as in `tc`: `50ms`, `2min`, `100mbit`, `64kb`."
        " `ccp COMMAND --help` shows the same in a terminal, and so does `man ccp` after installation "
        "from a wheel.\n",
    ]
    panel, described = "", described_at(all_commands)
    for one in all_commands:
        if one.panel != panel:
            panel = one.panel
            parts.append(f"## {panel}\n")
        parts.append(f"### ccp {one.path}\n")
        parts += [f"{text}\n" for text in map(_markdown, one.help)]
        parts.append("```sh\n" + "\n".join((*one.examples,)) + "\n```\n")
        if (same := described.get(one.path, one.path)) != one.path:
            parts.append(f"`{one.usage}`: options as for `ccp {same}`.\n")
            continue
        parts.append(f"`{one.usage}`\n")
        if one.options:
            rows = "".join(
                f"| `{_cell(row.names)}` | {_cell(_markdown(row.help))} |\n" for row in one.options
            )
            parts.append(f"| option | meaning |\n| --- | --- |\n{rows}")
    codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in EXIT.items())
    parts.append(f"## Exit codes\n\n| code | meaning |\n| --- | --- |\n{codes}")
    parts += [
        "## Events\n",
        "`ccp tail` prints events.\n",
        f"| event | meaning |\n| --- | --- |\n{_rows(events.KINDS)}",
        "## Requests\n",
        "Commands and clients send requests to the [control socket](live-reference.md#requests). "
        "Brackets mark optional fields.\n",
        requests(),
        "## Metrics\n",
        "[`ccp run --metrics`](operations.md#metrics-for-prometheus) serves metrics; `ccp rtcp attach "
        "--metrics` serves `ccplane_rate_limit_...`. Counters of the agent, of telemetry and of the bus "
        "count since the start of the agent; the other counters include earlier agents.\n",
        metric_table.table(),
    ]
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _markdown(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


# --- the man page -------------------------------------------------------------------------------------------


def man(all_commands: list[Command]) -> str:
    """Return the man page."""
    lines = [
        '.\\" Written by `make commands`.',
        '.TH CCP 1 "" "ccplane" "User Commands"',
        ".SH NAME",
        "ccp \\- congestion control of Linux TCP in Python",
        ".SH SYNOPSIS",
        "\\fBccp\\fR [\\fB\\-\\-debug\\fR] \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]",
        ".SH DESCRIPTION",
        _roff((cli.root.__doc__ or "").strip()),
        "Durations, rates and sizes take units as in \\fBtc\\fR(8): 50ms, 2min, 100mbit, 64kb.",
        ".PP",
        _roff(MORE),
    ]
    panel, described = "", described_at(all_commands)
    for one in all_commands:
        if one.panel != panel:
            panel = one.panel
            lines.append(f'.SH "{panel.upper()}"')
        lines.append(f'.SS "{_roff(one.usage)}"')
        for text in one.help:
            lines += [".PP", _roff(text)]
        if (same := described.get(one.path, one.path)) != one.path:
            lines += [".PP", f"Options as for \\fBccp {_roff(same)}\\fR."]
        for row in one.options if same == one.path else ():
            lines += [".TP", f"\\fB{_roff(row.names)}\\fR", _roff(row.help)]
        lines += [".PP", ".EX", *map(_roff, one.examples), ".EE"]
    lines.append(".SH EXIT STATUS")
    for code, meaning in EXIT.items():
        lines += [".TP", f"\\fB{code}\\fR", meaning]
    lines += [".SH SEE ALSO", "\\fBtc\\fR(8), \\fBss\\fR(8), \\fBbpftool\\fR(8), \\fBiperf3\\fR(1)"]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in textwrap.wrap(escaped, 110))


# --- requests, events, errors -------------------------------------------------------------------------------

SLUGS: Final = {
    "Every package": "ccplane.base.errors",
    "The compiled part": "scripts.compiled_errors",
    "The agent and `ccp`": "ccplane.agent.errors",
    "Regimes": "ccplane.agent.features.regime.errors telemetry.regime.errors",
    "The telemetry bus": "broker.errors",
    "Telemetry": "telemetry.receiver.errors telemetry.inband.errors telemetry.inband.node_errors "
    "telemetry.ioam.errors",
    "BCC probes": "telemetry.bpfcc.errors",
    "Experiments": "experiments.errors experiments.learning.errors experiments.bench.errors "
    "experiments.mininet_wifi.errors experiments.play.errors experiments.conform.errors "
    "experiments.evaluate.errors",
    "The network lab": "experiments.netlab.errors",
}
"""Heading -> modules with a table of slugs."""


def _rows(rows: Mapping[str, str]) -> str:
    return "".join(f"| `{name}` | {_cell(_markdown(meaning))} |\n" for name, meaning in rows.items())


def errors() -> str:
    """Return the page of error slugs."""
    parts = [
        "# Errors\n",
        "<!-- Written by `make commands` from the tables of errors. -->\n",
        "An error starts with its slug, which programs can rely on: `ccplane.CcpError.slug`, `slug` in "
        "JSON. The lines below it say where it happened, why, and how to fix it.\n",
    ]
    anchors = set()
    for heading, modules in SLUGS.items():
        known = {slug: text for name in modules.split() for slug, text in import_module(name).SLUGS.items()}
        known = {slug: text for slug, text in known.items() if slug not in anchors}
        anchors.update(known)
        rows = "".join(
            f'| <a id="{slug}"></a>`{slug}` | {_cell(_markdown(text))} |\n'
            for slug, text in sorted(known.items())
        )
        parts.append(f"## {heading}\n\n| slug | meaning |\n| --- | --- |\n{rows}")
    return "\n".join(parts)


def requests() -> str:
    """Return the table of requests; brackets mark optional fields."""
    rows = ""
    for kind in get_args(messages.Ask):
        fields = (
            f"`{one.name}`" if one.required else f"[`{one.name}`]" for one in msgspec.structs.fields(kind)
        )
        about = (kind.__doc__ or "").splitlines()[0]
        rows += f"| `{kind.__struct_config__.tag}` | {', '.join(fields)} | {_cell(about)} |\n"
    return f"| request | fields | meaning |\n| --- | --- | --- |\n{rows}"


def written() -> dict[Path, str]:
    """Return the text of each file."""
    found = commands()
    return {
        PAGE: page(found),
        ERRORS: errors(),
        **dict(cards.written()),
        scenario_page.PAGE: scenario_page.written(),
        suites.PAGE: suites.written(suites.PAGE.read_text()),
        MAN: man(found),
        **{
            path: get_completion_script(prog_name="ccp", complete_var="_CCP_COMPLETE", shell=shell).strip()
            + "\n"
            for shell, path in COMPLETION.items()
        },
    }


if __name__ == "__main__":
    for path, text in written().items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")
