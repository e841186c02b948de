"""The panel of a notebook: a widget and the threads that feed it."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

import anywidget

from ccplane.agent.panel import front
from ccplane.agent.panel.feed import Feed
from ccplane.agent.panel.gather import Gatherer
from ccplane.agent.panel.worker import Worker

if TYPE_CHECKING:
    from ccplane.agent.client import Client


class PanelWidget(anywidget.AnyWidget):
    """The front end; it communicates by messages."""

    _esm = front.script()
    _css = front.style()


class Panel:
    """A live panel; a notebook shows it as the last value of a cell. A context manager.

    Attributes:
        widget: The Jupyter widget.
        feed: Sends data to the browser, and counts them.
    """

    def __init__(self, client: Client, *, flow: int | None = None, algorithm: str | None = None) -> None:
        """Start the threads.

        Raises:
            LoadError: `control.no_agent`.
        """
        self.widget = PanelWidget()
        self.feed = Feed(lambda content, buffers: self.widget.send(content, buffers))
        self._worker = Worker(client.another(), self.feed, flow)
        self._gatherer = Gatherer(client.another(), self.feed, flow, algorithm)
        self._closed = False
        self.widget.on_msg(lambda _widget, content, _buffers: self._asked(content))

    def mark(self, text: str) -> None:
        """Mark the present time in the plot, for what the agent cannot know: a change of the path."""
        self._gatherer.mark(text)

    def close(self) -> None:
        """Stop the threads and remove the panel from the page; repeated calls have no effect."""
        if self._closed:
            return
        self._closed = True
        self._gatherer.close()
        self._worker.close()
        self.widget.close()

    def __enter__(self) -> Panel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _asked(self, content: dict[str, Any]) -> None:
        """Handle a message of a page, without blocking: this is the thread that runs cells."""
        what = content.get("do", "")
        if what == "got":
            self.feed.confirm(int(content["number"]))
        elif what == "hello":
            self.feed.replay()
            self._gatherer.refresh()
        elif what == "field":
            self._gatherer.want_field(str(content["name"]))
        elif self._worker.knows(what) and not self._closed:
            self._worker.submit(content)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)
