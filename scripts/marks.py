"""Generated text between two marks of a page."""

from __future__ import annotations

import re


def filled(text: str, begin: str, end: str, made: str) -> str:
    """Return a page with new text between its marks, with an empty line before and after it."""
    pattern = re.compile(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", re.DOTALL)
    return pattern.sub(lambda _: f"\n{made}\n\n", text, count=1)
