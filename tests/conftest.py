"""What all tests share: how hard property tests search, signals, temporary folders with short names, and what
is left out where the extension has no kernel part."""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ccplane.base import _native, site
from experiments import disturbance

# No deadline: the machines that run this have other work, and a slow example is no wrong one.
settings.register_profile("fast", max_examples=100, deadline=None, derandomize=True)
settings.register_profile(
    "slow", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# A shell starts background jobs with SIGINT ignored, nohup ignores SIGHUP, children inherit both: tests of
# Ctrl-C and of hanging up would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a temporary folder of the test's own.

    As pytest's own, with less of the test's name: there are sockets inside, whose addresses have at most 107
    bytes. A long user name and a worker's number take their part of it.
    """
    return tmp_path_factory.mktemp(re.sub(r"\W", "_", request.node.name)[:10])


@pytest.fixture(scope="session", autouse=True)
def no_site() -> Iterator[None]:
    """Print errors as the documents show them, whatever site `[project.urls]` names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "metadata_urls", list)
        site.address.cache_clear()
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark of tests of what builds without the kernel part lack."""
    config.addinivalue_line("markers", "kernel_part: needs a build of the extension with the kernel part")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what tests the kernel part where it was not built."""
    if item.get_closest_marker("kernel_part") and "EbpfDatapath" not in vars(_native):
        pytest.skip("this build of the extension has no kernel part")


@pytest.fixture
def any_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let benchmarks count rounds that others disturb: tests ask whether there are figures, not for them."""
    monkeypatch.setattr(disturbance, "TAKEN_MAX", math.inf)
    monkeypatch.setattr(disturbance, "TAKEN_APART", math.inf)
    monkeypatch.setattr(disturbance, "CLOCKS_APART_S", math.inf)
