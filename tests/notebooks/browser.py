"""A real JupyterLab, and a real browser that looks at it: headless Chromium, driven by Playwright."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import nbformat

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BROWSER: Final = "chromium"
START_S: Final = 60.0
TRIES: Final = 10
PANEL: Final = ".ccp-panel"
ROOT: Final = Path(__file__).parents[2]


def why_not() -> str | None:
    """Return why no notebook can be looked at here, None if it can."""
    missing = [name for name in ("jupyterlab", "playwright", "anywidget") if find_spec(name) is None]
    if shutil.which(BROWSER) is None:
        missing.append(BROWSER)
    return f"missing: {', '.join(missing)}; run `make setup`" if missing else None


class Server:
    """A JupyterLab server of its own.

    Attributes:
        url: Where it is, with a slash at the end.
        token: Opens it.
    """

    def __init__(self, directory: Path) -> None:
        """Start it, with settings and run files in the directory that it serves."""
        self.token = secrets.token_hex(16)
        own = directory / ".jupyter"
        own.mkdir()
        self._log = own / "log"
        quiet = own / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
        quiet.parent.mkdir(parents=True)
        quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}')
        environment = {
            **os.environ,
            "JUPYTER_TOKEN": self.token,
            "JUPYTER_RUNTIME_DIR": str(own / "runtime"),
            "JUPYTER_CONFIG_DIR": str(own / "config"),
            "JUPYTERLAB_SETTINGS_DIR": str(own / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(own / "workspaces"),
            "PYTHONPATH": str(ROOT),
        }
        command = [
            sys.executable,
            "-m",
            "jupyterlab",
            "--no-browser",
            "--allow-root",
            "--ip=127.0.0.1",
            "--port=0",
        ]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, f"--ServerApp.root_dir={directory}", "--expose-app-in-browser"],
                stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        self.url = self._wait(own / "runtime")

    def _wait(self, runtime: Path) -> str:
        end_s = time.monotonic() + START_S
        while time.monotonic() < end_s and self.process.poll() is None:
            for file in runtime.glob("jpserver-*.json"):
                try:
                    return str(json.loads(file.read_text())["url"])
                except (ValueError, KeyError):  # not yet written to its end
                    pass
            time.sleep(0.05)
        self.close()
        raise AssertionError(f"JupyterLab did not start:\n{self._log.read_text()[-3000:]}")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)


def write_notebook(file: Path, cells: Sequence[str]) -> None:
    """Write a notebook of code cells."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    nbformat.write(notebook, file)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which(BROWSER), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page(width: int = 1440, height: int = 1000, **options: Any) -> Iterator[Page]:
    """Give a page of a browser that was started for it."""
    with chromium() as browser:
        yield browser.new_page(viewport={"width": width, "height": height}, **options)


def open_and_run(page: Page, server: Server, notebook: str) -> None:
    """Open a notebook and run all its cells; returns when the panel draws."""
    page.goto(f"{server.url}doc/tree/{notebook}?token={server.token}&reset")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    page.wait_for_function("!document.querySelector('#jupyterlab-splash')")
    page.wait_for_function("document.querySelector('[data-status=idle]')")
    prompt = page.locator(".jp-CodeCell .jp-InputArea-prompt").first
    for _ in range(TRIES):  # the page takes commands before it does them
        page.locator(".jp-CodeCell .jp-InputArea-editor").first.click()
        page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        page.wait_for_timeout(1000)
        if prompt.inner_text().strip() != "[ ]:":
            break
    try:
        page.locator(f"{PANEL} canvas").wait_for(timeout=60_000)
        page.wait_for_function(f"Number(document.querySelector('{PANEL}').dataset.painted) > 3")
    except Exception as error:
        raise AssertionError(f"no panel: {page.locator('.jp-Notebook').inner_text()[-3000:]}") from error
