"""The tree of `ccp`: which commands there are, in which panel of the help, and what each does in one line.

No command is imported before it is run: `ccp --help` and shell completion read the first line of its
docstring from its source. Packages above `ccplane.agent` add commands through entry points: the group
`ccplane.commands.PANEL` is the panel, the name is the path below `ccp` (`telemetry.receive`), the value is
`module:typer_app`, or `module:typer_app.command` for one command of an app.
"""

from __future__ import annotations

import ast
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final

import typer
import typer.core
import typer.main
from rich.markup import escape

from ccplane.agent.features import features
from ccplane.base.errors import CcpError, UsageError
from ccplane.base.extras import lacking
from ccplane.base.names import close_names

GROUP: Final = "ccplane.commands"
"""Entry points of commands of other packages; a panel's name may follow, after a dot."""

FIRST: Final = {
    "write": "Write",
    "run": "Run",
    "change": "Watch and change",
    "experiment": "Experiment",
    "telemetry": "Telemetry",
    "": "Other packages",
}
"""Panels of `ccp --help`: title by name."""

SECOND: Final = {"research": "Research", "developer": "Work on ccplane"}
"""Panels that only `ccp help --all` shows."""

PANELS: Final = FIRST | SECOND

GROUPS: Final = {
    "telemetry": "Measure at receivers and on the path; publish and decode what was measured.",
    "bus": "Run the broker of the telemetry bus, and manage its users.",
    "bus.user": "Add, remove and list the users of a broker.",
}
"""Help of the groups whose commands are in several packages."""

_OWN: Final = {
    "write": ("new", "check", "algorithms"),
    "run": ("run", "stop", "upgrade", "unload", "doctor", "service"),
    "change": ("flows", "top", "tail", "get", "set", "load", "switch", "canary", "rollback", "program"),
    "telemetry": ("telemetry.subscribe",),
}

_ELSEWHERE: Final = {
    "get": "parameters:get_app",
    "set": "parameters:set_app",
    "telemetry.subscribe": "subscribe:app",
}
"""Commands that are not in a module of their name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command that is not imported yet.

    Attributes:
        path: Its words below `ccp`, with dots between: `telemetry.receive`.
        value: `module:typer_app` or `module:typer_app.command`.
        panel: A key of `PANELS`; empty for packages other than ccplane's.
        shipped: Whether it belongs to ccplane, so that a wheel may lack it.
    """

    path: str
    value: str
    panel: str = ""
    shipped: bool = False

    @property
    def module(self) -> str:
        """The module to import."""
        return self.value.partition(":")[0]

    @property
    def target(self) -> tuple[str, str]:
        """The name of the Typer app in the module, and the name of its command, which may be empty."""
        app, _, command = self.value.partition(":")[2].partition(".")
        return app, command

    @property
    def is_left_out(self) -> bool:
        """Whether this wheel lacks the command, because it is for work on ccplane itself."""
        return self.shipped and _source(self.module) is None


@cache
def own() -> dict[str, Entry]:
    """Return the commands of `ccplane.agent` by path."""
    return {
        path: Entry(path, f"ccplane.agent.commands.{_ELSEWHERE.get(path, f'{path}:app')}", panel)
        for panel, paths in _OWN.items()
        for path in paths
    }


@cache
def plugins() -> dict[str, Entry]:
    """Return the commands of features and of other packages by path."""
    found = {}
    installed = metadata.entry_points()
    for panel in PANELS:
        for entry in installed.select(group=f"{GROUP}.{panel}" if panel else GROUP):
            shipped = entry.dist is not None and entry.dist.name == "ccplane"
            found[entry.name] = Entry(entry.name, entry.value, panel, shipped)
    for feature in features():
        for panel, commands in feature.commands.items():
            found |= {path: Entry(path, value, panel) for path, value in commands.items()}
    return dict(sorted(found.items()))


# --- one line of help, without an import --------------------------------------------------------------------


def summary(entry: Entry) -> str:
    """Return the help of a command, or why it cannot be loaded; imports it only if its source has no help."""
    path = _source(entry.module)
    try:
        text = None if path is None else _help_in(path.read_text(encoding="utf-8"), *entry.target)
    except (OSError, SyntaxError, ValueError):
        text = None
    return loaded(entry).help or "" if text is None else text


def _source(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def _help_in(source: str, app: str, command: str) -> str | None:
    """Return a Typer app's help from its source: `help=`, or the docstring of its callback or command."""
    if command:
        functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
        return next((ast.get_docstring(one) for one in functions if one.name == command), None)
    docstrings: dict[str, str] = {}
    is_here = False
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            is_here = is_here or ast.unparse(node.targets[0]) == app
            for keyword in node.value.keywords if ast.unparse(node.targets[0]) == app else ():
                if keyword.arg == "help" and isinstance(keyword.value, ast.Constant):
                    return str(keyword.value.value)
        elif isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                docstrings.setdefault(ast.unparse(called), ast.get_docstring(node) or "")
    found = docstrings.get(f"{app}.callback", docstrings.get(f"{app}.command"))
    return found if is_here else None


# --- commands -----------------------------------------------------------------------------------------------


def loaded(entry: Entry) -> Any:
    """Import a command; if that fails, return a command that reports why."""
    try:
        name, below = entry.target
        app = getattr(import_module(entry.module), name)
        if not isinstance(app, typer.Typer):
            raise TypeError(f"{entry.value} is a {type(app).__name__}, not a typer.Typer")
        command: Any = typer.main.get_command(app)
        if below:
            command = command.commands[below]
    except Exception as error:  # whatever a plug-in does wrong must not break `ccp`
        command = _broken(entry, error)
    command.name = entry.path.rpartition(".")[2]
    _unwrap(command)
    return command


def _unwrap(command: Any) -> None:
    """Let the terminal's width break the lines of paragraphs, and not the source's."""
    if command.help and "\b" not in command.help:
        command.help = "\n\n".join(" ".join(part.split()) for part in command.help.split("\n\n"))
    for below in getattr(command, "commands", {}).values():
        _unwrap(below)


def _broken(entry: Entry, error: Exception) -> Any:
    app = typer.Typer(add_completion=False)
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}

    reason: CcpError | None = error if isinstance(error, CcpError) else None
    if isinstance(error, ModuleNotFoundError):
        reason = _not_in_the_wheel(entry) if entry.is_left_out else lacking(error)
    why_not = reason.fix if reason else f"cannot be loaded: {type(error).__name__}: {error}"
    words = entry.path.replace(".", " ")

    @app.command(help=f"({escape(why_not)})", context_settings=settings)
    def fail() -> None:
        if reason:
            raise reason from error
        raise UsageError(
            "command.broken",
            f"the command `{words}` cannot be loaded",
            where=f"entry point {entry.path} = {entry.value}",
            why=f"{type(error).__name__}: {error}",
            fix="install the missing package, or remove the package that adds this command",
        ) from error

    return typer.main.get_command(app)


def _not_in_the_wheel(entry: Entry) -> CcpError:
    return UsageError(
        "command.not_in_wheel",
        f"`ccp {entry.path.replace('.', ' ')}` is not installed",
        where=f"entry point {entry.path} = {entry.value}",
        why="papers, the soak test and the validation of the simulator are in the repository only",
        fix="clone ccplane's repository, run `make setup` there, and use its .venv/bin/ccp",
    )


class Listed(typer.core.TyperCommand):
    """Placeholder for a command in lists; imports the command when it is run."""

    def __init__(self, entry: Entry, *, hidden: bool) -> None:
        """Describe the command; a hidden one needs no help text."""
        super().__init__(
            entry.path.rpartition(".")[2],
            help=None if hidden else summary(entry),
            rich_help_panel=PANELS[entry.panel],
            hidden=hidden,
            add_help_option=False,
        )
        self.entry = entry

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Import the command, and parse its arguments."""
        return loaded(self.entry).make_context(info_name, args, parent, **extra)


class Branch(typer.core.TyperGroup, ABC):
    """A group of commands, each imported when it is run."""

    prefix = ""
    first_screen = False
    """Whether the current list omits the second screen."""

    @abstractmethod
    def entries(self) -> Mapping[str, Entry]:
        """Return the commands at and below this group by path."""

    def _below(self) -> dict[str, list[Entry]]:
        below: dict[str, list[Entry]] = {}
        for entry in self.entries().values():
            if entry.path.startswith(self.prefix):
                below.setdefault(entry.path[len(self.prefix) :].partition(".")[0], []).append(entry)
        return below

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, panel by panel."""
        below = {
            name: entries[0]
            for name, entries in self._below().items()
            if not all(one.is_left_out for one in entries)
            and not (self.first_screen and entries[0].panel in SECOND)
        }
        panels = list(PANELS)
        return sorted(below, key=lambda name: panels.index(below[name].panel))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the placeholder of a command, or a group; None if the name is unknown."""
        found = self._below().get(cmd_name)
        if found is None:
            return super().get_command(ctx, cmd_name)
        path = self.prefix + cmd_name
        hidden = self.first_screen and found[0].panel in SECOND
        if [one.path for one in found] == [path]:
            return Listed(found[0], hidden=hidden)
        return Twig(path, found, hidden=hidden)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments begin with; suggests another one if there is none."""
        name = args[0]
        # Looked up once: for the placeholder, the source of the command's module is parsed.
        if (command := self.get_command(ctx, name)) is not None:
            return name, command, args[1:]
        if not ctx.resilient_parsing and not name.startswith("-"):
            raise UsageError(
                "command.unknown",
                f"`{ctx.command_path}` has no command `{name}`",
                fix=close_names(name, self.list_commands(ctx), "command"),
            )
        return super().resolve_command(ctx, args)


class Twig(Branch):
    """A group below `ccp`."""

    def __init__(self, path: str, entries: Iterable[Entry], *, hidden: bool) -> None:
        """Make the group of some entries."""
        found = list(entries)
        super().__init__(
            name=path.rpartition(".")[2],
            help=GROUPS.get(path, ""),
            rich_help_panel=PANELS[found[0].panel],
            hidden=hidden,
            no_args_is_help=True,
        )
        self.prefix = f"{path}."
        self._entries = {one.path: one for one in found}

    def entries(self) -> Mapping[str, Entry]:
        """Return the commands of the group by path."""
        return self._entries


def whole(command: Any) -> Any:
    """Import and return the command of a placeholder."""
    return loaded(command.entry) if isinstance(command, Listed) else command


def tree(command: Any, context: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a group and all commands and groups below it, imported, each with its path.

    Args:
        command: A group or a command.
        context: A context of the group.
        path: Words that lead to it, after `ccp`.
    """
    found = whole(command)
    yield path, found
    if hasattr(found, "list_commands"):
        for name in found.list_commands(context):
            yield from tree(found.get_command(context, name), context, f"{path} {name}".strip())
