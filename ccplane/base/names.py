"""Suggestions for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def close_names(name: str, known: Iterable[str], what: str = "name") -> str:
    """Return the `fix` text for an unknown name: similar known names, else up to twelve known names.

    Args:
        name: The unknown name.
        known: All valid names.
        what: Noun for the text, in the singular.
    """
    names = sorted(set(known))
    if not names:
        return f"no {what} is available"
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(f"`{n}`" for n in near) + "?"
    shown = names if len(names) <= 12 else [*names[:12], f"... ({len(names)} in all)"]
    return f"known {what}s: " + ", ".join(shown)
