"""Take the pictures of docs/watch.md from real flows: `ccp top` and the panel, with a change and its effect.

    sudo .venv/bin/python -m scripts.screens          # all; needs Chromium, DejaVu fonts, iperf3; two minutes
    sudo .venv/bin/python -m scripts.screens top      # or `panel`

Nothing is drawn specially: the terminal is `ccp top` with its keys pressed, the page is the panel with its
controls used.
"""

from __future__ import annotations

import asyncio
import base64
import json
import queue
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from ccplane.agent.monitor.app import Monitor
from ccplane.agent.monitor.loop_source import open_source
from ccplane.agent.panel import front
from ccplane.agent.panel.panel import Panel
from experiments.agent_process import PIN_DIR, running_agent
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.iperf import start_iperf3
from experiments.netlab.spec import Buffer, Direction
from experiments.netlab.topologies import point_to_point
from tests.notebooks.browser import PANEL, page

if TYPE_CHECKING:
    from playwright.sync_api import Page

IMAGES: Final = Path(__file__).parents[1] / "docs/images"
PATH: Final = point_to_point(
    Direction(rate_bytes_per_s=5e6, delay_us=20_000, buffer=Buffer(bdp=2)), Direction(delay_us=20_000)
)
BEFORE_S: Final = 20.0
AFTER_S: Final = 14.0
"""Time before and after a change [s]; a picture of `ccp top` shows 31 s, one of the panel 60 s."""


def main() -> None:
    """Take the wanted pictures."""
    wanted = sys.argv[1:] or ["top", "panel"]
    if "top" in wanted:
        take_top()
    if "panel" in wanted:
        take_panel()


# The terminal


def take_top() -> None:
    """Three flows fill a buffer; `w` switches the two of CUBIC to Copa, and the RTT falls."""
    with (
        emulated(PATH) as net,
        running_agent("cubic", "copa", "lt_cubic"),
        start_flows(net, ("ccp.cubic", "ccp.cubic", "ccp.lt_cubic")),
    ):
        shown = asyncio.run(watch())
    with page(1240, 800, device_scale_factor=1) as made:
        for name, picture in shown.items():
            made.set_content(f"<body style='margin:0;background:#fff'>{readable(picture)}</body>")
            made.locator("svg").screenshot(path=IMAGES / f"{name}.png", omit_background=True)


async def watch() -> dict[str, str]:
    """Return the screens as SVG, by the names of their pictures."""
    app = Monitor(open_source(PIN_DIR), interval_s=0.5)
    shown = {}
    async with app.run_test(size=(118, 36)) as pilot:
        await asyncio.sleep(BEFORE_S / 2)
        row = next(i for i, name in enumerate(steered_by(app)) if name.startswith("cubic"))
        await pilot.press(*["up"] * 3, *["down"] * row, "enter")
        await asyncio.sleep(BEFORE_S / 2)
        await pilot.press("w")
        await asyncio.sleep(1)
        await pilot.press("tab", "space", "shift+tab", "enter")
        await asyncio.sleep(AFTER_S)
        shown["top"] = app.export_screenshot(title="ccp top")
        await pilot.press("escape")
        await pilot.resize_terminal(118, 12)
        await asyncio.sleep(1)
        shown["top-overview"] = app.export_screenshot(title="ccp top")
    return shown


def steered_by(app: Monitor) -> list[str]:
    """Return the algorithms of the sending flows, in the order of the table."""
    flows = sorted(app.histories.flows.values(), key=lambda flow: -(flow.row.throughput_bytes_per_s or 0))
    return [flow.row.steered_by for flow in flows]


def readable(picture: str) -> str:
    """Return a screen's SVG with a font that is there, whose blocks touch the line above."""
    return (
        picture.replace("Fira Code", "DejaVu Sans Mono")
        .replace("font-size: 20px", "font-size: 21px")
        .replace("textLength=", 'lengthAdjust="spacingAndGlyphs" textLength=')
    )


# The panel


def take_panel() -> None:
    """Twelve flows of Copa; the slider of `delta` moves, then the path loses half its rate."""
    with (
        emulated(PATH) as net,
        running_agent("copa"),
        start_flows(net, ("ccp.copa",), parallel=12),
        Client(control_socket(PIN_DIR)) as client,
    ):
        client.set({"copa.competitive": False})
        with client.panel() as panel, shown_panel(panel) as (made, wait):
            made.get_by_label("quantity").select_option("srtt_us")
            made.get_by_label("time window").select_option("60")
            wait(BEFORE_S)
            made.get_by_label("copa.delta").nth(1).fill("0.2")
            made.get_by_label("copa.delta").nth(1).press("Enter")
            wait(AFTER_S)
            net.change("link>", rate_bytes_per_s=2.5e6)
            panel.mark("path: 40 to 20 Mbit/s")
            wait(AFTER_S)
            made.evaluate(TO_ON_REPORT)
            made.locator(".ccp-panel .mark.parameter").hover()
            wait(0.5)
            made.locator(PANEL).screenshot(path=IMAGES / "panel.png")


TO_ON_REPORT: Final = """() => {
  const area = document.querySelector('.ccp-panel textarea');
  const lines = area.value.split('\\n');
  area.scrollTop = 18 * (lines.findIndex((line) => line.includes('def on_report')) - 1);
}"""


@contextmanager
def shown_panel(panel: Panel) -> Iterator[tuple[Page, Callable[[float], None]]]:
    """Show a panel on a page of its own, with a notebook's messages; give the page and a function to wait."""
    to_page: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def send(content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        packed = [base64.b64encode(one).decode() for one in buffers or ()]
        to_page.put({"content": content, "buffers": packed})

    panel.widget.send = send  # type: ignore[method-assign, assignment]
    with page(1300, 1250, color_scheme="light") as made:
        made.expose_function("toKernel", lambda content: panel.widget._handle_custom_msg(content, []))
        made.set_content("<body style='margin:10px;background:#fff'><div id='place'></div></body>")
        made.add_style_tag(content=front.style())
        script = front.script().replace("export default {", "window.panel = {")
        made.add_script_tag(content=script + RECEIVE)

        def wait(seconds: float) -> None:
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s:
                while not to_page.empty():
                    made.evaluate("(text) => window.fromKernel(text)", json.dumps(to_page.get()))
                made.wait_for_timeout(20)

        wait(3)
        yield made, wait


RECEIVE: Final = """
let receive;
const model = {
  send: (content) => window.toKernel(content),
  on: (_, listener) => { receive = listener; },
  off: () => {},
};
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer);
window.fromKernel = (text) => {
  const { content, buffers } = JSON.parse(text);
  receive(content, buffers.map(bytes));
};
window.panel.render({ model, el: document.getElementById("place") });
"""
"""The side of the page of a notebook's messages."""


@contextmanager
def start_flows(net: EmulatedNetwork, congestion: tuple[str, ...], parallel: int = 1) -> Iterator[None]:
    """Run iperf3 transfers from the sender to the receiver."""
    runs = [
        start_iperf3(
            net.hosts["sender"], net.hosts["receiver"], congestion=name, duration_s=200, parallel=parallel
        )
        for name in congestion
    ]
    try:
        yield
    finally:
        for run in runs:
            run.__exit__(None, None, None)


if __name__ == "__main__":
    main()
