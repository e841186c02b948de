"""Text between two marks of a page, which is made from what is kept."""

from __future__ import annotations

import re


def filled(text: str, begin: str, end: str, made: str) -> str:
    """Return a page with something else between its marks, and an empty line before and after it.

    Args:
        text: The page.
        begin: The mark above, with its end of line.
        end: The mark below.
        made: What is to stand there.
    """
    pattern = re.compile(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", re.DOTALL)
    return pattern.sub(lambda _: f"\n{made}\n\n", text, count=1)
