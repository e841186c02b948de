"""A live plot and sliders for a notebook: `client.panel()`.

A thread of the notebook listens to reports and draws twice a second; moving a slider sets the parameter. The
plot shows window, pacing rate, and what the fold program reports as `srtt_us`, over the last seconds.

Needs ipywidgets: `pip install 'ccplane[notebooks]'`.
"""

from __future__ import annotations

import io
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from ccp_base.errors import CcpError
from ccp_base.extras import extra_part

if TYPE_CHECKING:
    from agent.client import Client

WINDOW_S: Final = 30.0
"""How much of the past is shown [s]."""

DRAW_S: Final = 0.5
"""How often the plot is drawn [s]."""

MAX_POINTS: Final = 2_000
"""Points of a flow's line; older ones are left out sooner if they come faster than these last."""

MAX_FLOWS: Final = 8
"""Lines of a plot; flows beyond are not shown."""

ROWS: Final = (
    ("cwnd_bytes", "cwnd [kB]", 1e-3),
    ("rate", "rate [Mbit/s]", 8e-6),
    ("srtt", "srtt [ms]", 1e-3),
)
"""Quantity, label and scale of each part of the plot."""

Point = tuple[float, dict[str, float]]


class Curves:
    """The last seconds of reports, by flow."""

    def __init__(self) -> None:
        """Start without points."""
        self._points: dict[int, deque[Point]] = {}

    def add(self, row: dict[str, Any]) -> None:
        """Take a report as it comes from `Client.stream`."""
        flow_id = row["flow_id"]
        if flow_id not in self._points and len(self._points) >= MAX_FLOWS:
            self._forget(row["t_us"] / 1e6)
            if len(self._points) >= MAX_FLOWS:
                return
        values = {"cwnd_bytes": float(row["cwnd_bytes"])}
        if row["rate_bytes_per_s"]:
            values["rate"] = float(row["rate_bytes_per_s"])
        if row["fields"].get("srtt_us"):
            values["srtt"] = float(row["fields"]["srtt_us"])
        self._points.setdefault(flow_id, deque(maxlen=MAX_POINTS)).append((row["t_us"] / 1e6, values))

    def line(self, flow_id: int, quantity: str) -> tuple[list[float], list[float]]:
        """Return times [s], counted from the newest report of any flow, and values of a flow."""
        now_s = self._now_s()
        points = [point for point in self._points[flow_id] if point[0] >= now_s - WINDOW_S]
        known = [(time_s - now_s, values[quantity]) for time_s, values in points if quantity in values]
        return [time_s for time_s, _ in known], [value for _, value in known]

    @property
    def flow_ids(self) -> list[int]:
        """The flows that are shown."""
        return sorted(self._points)

    def _now_s(self) -> float:
        return max(points[-1][0] for points in self._points.values())

    def _forget(self, now_s: float) -> None:
        """Forget flows that are silent for longer than is shown."""
        for flow_id in [one for one, points in self._points.items() if points[-1][0] < now_s - WINDOW_S]:
            del self._points[flow_id]

    def draw(self) -> bytes:
        """Return the plot as a PNG picture."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        parts = figure.subplots(len(ROWS), 1, sharex=True)
        for part, (quantity, label, scale) in zip(parts, ROWS, strict=True):
            for flow_id in self.flow_ids:
                times_s, values = self.line(flow_id, quantity)
                part.plot(times_s, [scale * value for value in values], label=str(flow_id), linewidth=1.2)
            part.set_ylabel(label)
            part.set_ylim(bottom=0)
            part.grid(alpha=0.3)
        parts[-1].set_xlabel("time [s]")
        parts[-1].set_xlim(-WINDOW_S, 0)
        if self.flow_ids:
            parts[0].legend(title="flow", fontsize="x-small", loc="upper left")
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=80)
        return picture.getvalue()


class Panel:
    """Plot and sliders; a notebook shows it as the last value of a cell.

    Attributes:
        widget: The whole, an `ipywidgets.VBox`.
        sliders: Control of each parameter by `ALGORITHM.NAME`.
    """

    def __init__(self, client: Client, *, flow: int | None = None, algorithm: str | None = None) -> None:
        """Build the controls and begin to draw.

        Args:
            client: The agent.
            flow: This flow only.
            algorithm: Parameters of this algorithm only.

        Raises:
            LoadError: `load.no_extra`, without ipywidgets.
        """
        with extra_part():
            import ipywidgets

        self._client = client
        self._flow = flow
        self._curves = Curves()
        self._picture = ipywidgets.Image(format="png", value=self._curves.draw())
        self._said = ipywidgets.HTML()
        self.sliders: dict[str, Any] = {}
        for owner, rows in client.get_params(algorithm if flow is None else None, flow).items():
            for row in rows:
                self._add(f"{owner}.{row['name']}", row)
        self.widget = ipywidgets.VBox([self._picture, *self.sliders.values(), self._said])
        self._stream = client.stream(flow, timeout_s=DRAW_S)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="ccp-panel", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Draw no longer."""
        self._done.set()
        self._thread.join()
        self._stream.close()
        self.widget.close()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.widget)  # type: ignore[no-untyped-call]

    def _add(self, name: str, row: dict[str, Any]) -> None:
        control = _control(name, row)

        def moved(change: dict[str, Any]) -> None:
            try:
                self._client.set({name: change["new"]}, flow=self._flow)
                self._said.value = ""
            except CcpError as error:
                self._said.value = f"<pre>{error}</pre>"

        control.observe(moved, names="value")
        self.sliders[name] = control

    def _listen(self) -> None:
        drawn_s = time.monotonic()
        while not self._done.is_set():
            row = self._stream.next(DRAW_S)
            if row is not None:
                self._curves.add(row)
            if time.monotonic() - drawn_s >= DRAW_S:
                self._picture.value = self._curves.draw()
                drawn_s = time.monotonic()


def _control(name: str, row: dict[str, Any]) -> Any:
    """Return the control that fits a parameter: a slider where it has both bounds."""
    import ipywidgets

    value, low, high = row["value"], row["low"], row["high"]
    common: dict[str, Any] = {
        "description": name,
        "tooltip": row["doc"],
        "style": {"description_width": "12em"},
        "layout": {"width": "40em"},
    }
    if isinstance(value, bool):
        return ipywidgets.Checkbox(value=value, **common)
    if row["choices"]:
        return ipywidgets.Dropdown(options=row["choices"], value=value, **common)
    bounded = low is not None and high is not None
    if isinstance(row["default"], float):
        if bounded:
            step = (high - low) / 200
            return ipywidgets.FloatSlider(
                value=value,
                min=low,
                max=high,
                step=step,
                readout_format=".3g",
                continuous_update=False,
                **common,
            )
        return ipywidgets.FloatText(value=value, continuous_update=False, **common)
    if isinstance(row["default"], int):
        if bounded and high < 1 << 31:
            return ipywidgets.IntSlider(value=value, min=low, max=high, continuous_update=False, **common)
        return ipywidgets.Text(value=str(value), continuous_update=False, **common)
    return ipywidgets.Text(value=value, continuous_update=False, **common)
