"""What to say where somebody asks for a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def close_names(name: str, known: Iterable[str], what: str = "name") -> str:
    """Return the `fix` sentence for an unknown name.

    Args:
        name: What was asked for.
        known: What there is.
        what: What kind of thing it is, for the sentence.

    Returns:
        A suggestion if a known name is close, else the list of known names when it is short, else where
        to look; never empty.
    """
    names = sorted(set(known))
    if not names:
        return f"there is no {what} to choose from"
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(f"`{n}`" for n in near) + "?"
    shown = names if len(names) <= 12 else [*names[:12], f"... ({len(names)} in all)"]
    return f"known {what}s: " + ", ".join(shown)
