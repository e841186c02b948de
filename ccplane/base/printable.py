"""Text from other hosts and processes on a terminal: without control characters."""

from __future__ import annotations

import logging


def printable(text: str, keep: str = "") -> str:
    """Return a text with escape codes instead of the characters that do not print.

    Such characters are control characters, which start commands of a terminal, and characters that change the
    direction of a text or separate lines.

    Args:
        text: Any text.
        keep: Characters that stay, such as a newline.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in keep else one.encode("unicode_escape").decode() for one in text
    )


class PrintableFormatter(logging.Formatter):
    """Formats log records, tracebacks included, for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as printable text."""
        return printable(super().format(record), keep="\n\t")
