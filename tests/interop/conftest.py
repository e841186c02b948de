from __future__ import annotations

import pytest

from tests.interop.brokers import Secrets, make_secrets


@pytest.fixture(scope="session")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    return make_secrets(tmp_path_factory.mktemp("mosquitto"))
