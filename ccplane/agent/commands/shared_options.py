"""Commands that have options in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any


def take(command: Callable[..., Any], parameters: Iterable[inspect.Parameter]) -> None:
    """Let typer give a command these options, by name, whatever its own signature is."""
    options = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    # typer reads both.
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in options}
