"""A chart of one metric over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text
from textual.widget import Widget

from ccplane.agent.monitor.spark import scale, spark


class Chart(Widget):
    """The last values of a metric, one per column, the newest on the right."""

    def __init__(self, title: str, text: Callable[[float | None], str], colour: str) -> None:
        super().__init__()
        self._quantity = title
        self._text = text
        self._colour = colour
        self._values: Sequence[float] = ()

    def show(self, values: Sequence[float]) -> None:
        """Show values, oldest first; NaN: no value."""
        self._values = values
        self._retitle()
        self.refresh()

    def on_resize(self) -> None:
        """Update the title, because the number of columns has changed."""
        self._retitle()

    def _retitle(self) -> None:
        shown = self._values[-self.size.width :] if self.size.width else self._values
        covered = scale(shown)
        title = self._quantity
        if covered is not None:
            title += f"  {self._text(shown[-1])}"
            title += f"  ({self._text(covered.minimum)} to {self._text(covered.maximum)})"
        self.border_title = title

    def render(self) -> Text:
        """Return the columns."""
        lines = spark(self._values, self.size.width, max(self.size.height, 1))
        return Text("\n".join(lines), style=self._colour, no_wrap=True)
