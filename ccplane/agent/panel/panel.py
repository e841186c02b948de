"""The panel as a notebook has it: a widget, and the threads that feed it."""

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
    """The front end; all it is told and says are messages."""

    _esm = front.script()
    _css = front.style()


class Panel:
    """A live panel; a notebook shows it as the last value of a cell. A context manager.

    Attributes:
        widget: What is shown, a Jupyter widget.
        feed: Counts what was sent to the browser.
    """

    def __init__(self, client: Client, *, flow: int | None = None, algorithm: str | None = None) -> None:
        """Begin to gather.

        Args:
            client: The agent.
            flow: This flow only.
            algorithm: Parameters of this algorithm only.

        Raises:
            LoadError: `control.no_agent`, if it is there no longer.
        """
        self.widget = PanelWidget()
        self.feed = Feed(lambda content, buffers: self.widget.send(content, buffers))
        self._worker = Worker(client.another(), self.feed, flow)
        self._gatherer = Gatherer(client.another(), self.feed, flow, algorithm)
        self._closed = False
        self.widget.on_msg(lambda _widget, content, _buffers: self._asked(content))

    def close(self) -> None:
        """End it; what is on the page goes. May be called again."""
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
        """Take a message of a page; on the thread that runs cells, so nothing here may wait."""
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
