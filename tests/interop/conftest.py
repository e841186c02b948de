from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.brokers import Secrets, make_secrets


@pytest.fixture(scope="session")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    return make_secrets(tmp_path_factory.mktemp("mosquitto"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, driven by Playwright."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs `make setup`")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs `make setup`")
    with playwright.sync_playwright() as one:
        browser = one.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()
