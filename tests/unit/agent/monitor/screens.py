"""Screens as text, compared with the golden files in `data/`.

The text is extracted from the SVG that textual exports, without colours and style names, which change with
textual's themes. `CCP_BLESS=1 pytest ...` rewrites the golden files; review the difference.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.app import App
from textual.pilot import Pilot

from ccplane.agent.monitor.app import Monitor
from ccplane.agent.monitor.source import Source

GOLDEN = Path(__file__).parent / "data"

_TEXT = re.compile(
    r'<text class="\S+-r\d+" x="([\d.]+)" y="[\d.]+" textLength="[\d.]+" '
    r'clip-path="\S+-line-(\d+)\)">(.*?)</text>'
)
_CHARACTER = 12.2  # width of a character in the exported SVG


def text_of(app: App[None]) -> str:
    """Return the lines of the screen, without trailing blanks."""
    lines: dict[int, str] = {}
    for x, line, text in _TEXT.findall(app.export_screenshot()):
        column = round(float(x) / _CHARACTER)
        shown = html.unescape(text).replace("\xa0", " ")
        lines[int(line)] = lines.get(int(line), "").ljust(column) + shown
    return "".join(f"{lines.get(line, '').rstrip()}\n" for line in range(max(lines) + 1))


def assert_golden(app: App[None], name: str) -> None:
    shown, file = text_of(app), GOLDEN / f"{name}.txt"
    if os.environ.get("CCP_BLESS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8")
    assert shown.splitlines() == file.read_text(encoding="utf-8").splitlines()


Steps = Callable[[Monitor, Pilot[None]], Awaitable[None]]


def on_screen(
    source: Source,
    steps: Steps,
    *,
    size: tuple[int, int] = (150, 32),
    looks: int = 3,
    interval_s: float | None = None,
) -> None:
    """Run the application on a virtual screen.

    Args:
        source: The data source.
        steps: Steps of the test.
        size: Columns and lines.
        looks: Number of polls before.
        interval_s: Polling interval [s].
    """

    async def run() -> None:
        app = Monitor(source, interval_s=interval_s)
        async with app.run_test(size=size) as pilot:
            for _ in range(looks):
                await app.look()
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(run())


async def press(app: Monitor, pilot: Pilot[None], *keys: str) -> None:
    """Press keys, and wait until their effects are shown."""
    for key in keys:
        await pilot.press(key)
        await app.workers.wait_for_complete()
        await pilot.pause()
