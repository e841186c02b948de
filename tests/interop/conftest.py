from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.brokers import Secrets, make_secrets
from tests.notebooks.browser import BROWSER, chromium


@pytest.fixture(scope="session")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    return make_secrets(tmp_path_factory.mktemp("mosquitto"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, driven by Playwright."""
    if shutil.which(BROWSER) is None:
        pytest.skip("needs `make setup`")
    pytest.importorskip("playwright.sync_api", reason="needs `make setup`")
    with chromium() as started:
        yield started
