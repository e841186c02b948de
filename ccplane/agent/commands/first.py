"""The file that `ccp new` writes: a whole algorithm, small enough to read in a minute.

`ccp demo` edits the same file while its flow sends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).parents[2] / "templates/mine.py"
"""The algorithm, under the name `mine`; a user's file, which ccplane itself does not import."""


def text_for(name: str) -> str:
    """Return the source of the first algorithm under a name."""
    title = "".join(part.capitalize() for part in name.split("_"))
    text = FILE.read_text(encoding="utf-8")
    return text.replace('@register("mine")\nclass Mine(', f'@register("{name}")\nclass {title}(')
