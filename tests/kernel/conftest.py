"""Tests on real sockets of this kernel: marked, guarded, and with paths to send over.

As root they never skip, except those of struct_ops on a kernel that has none, those of radios where there are
no simulated ones (`make test-wifi` has them), and on an emulated processor
(`python -m scripts.vm`) those that are marked `emulated` with the reason: all else that does not work is a
failure.

They mostly wait, so `make test` runs two pytests side by side: a machine has one congestion control `ccp`,
and all that may register it is one pytest's; what is marked `kernel(struct_ops=False)` is the other's. What
is marked `alone` wants the machine for itself, because it measures the machine, or looks for what killed
runs left, which any lab removes. It comes afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path as FilePath

import pytest

from ccp_base import _native
from experiments.netlab import IperfRun, Lab, Path, bottleneck, clean_leftovers, start_iperf3, two_hosts
from tests.lent import TEST

HERE = FilePath(__file__).parent
BTF = FilePath("/sys/kernel/btf/vmlinux")
STRUCT_OPS = b"\0bpf_struct_ops_tcp_congestion_ops\0"  # the type behind a TCP congestion control in BPF


def why_not(needs_struct_ops: bool) -> str | None:
    """Return why kernel tests cannot run here, or None if they can."""
    if "EbpfDatapath" not in vars(_native):
        return "this build of the extension has no kernel part"
    if os.geteuid() != 0:
        return "needs root: network namespaces and BPF; run `sudo make test-kernel`"
    if needs_struct_ops and not (BTF.exists() and STRUCT_OPS in BTF.read_bytes()):
        return f"this kernel ({os.uname().release}) has no BTF with struct_ops for TCP congestion control"
    return None


def why_not_emulated(item: pytest.Item) -> str | None:
    """Return why a test cannot hold on the emulated processor that this is, or None."""
    marker = item.get_closest_marker("emulated")
    return f"emulated processor: {marker.args[0]}" if marker and os.environ.get("CCPLANE_EMULATED") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this directory, and say why what cannot run is skipped."""
    reasons = {needs: why_not(needs) for needs in (False, True)}
    for item in items:
        if item.path.is_relative_to(HERE):
            own = item.get_closest_marker("kernel")
            item.add_marker("kernel")
            needs_struct_ops = own.kwargs.get("struct_ops", True) if own else True
            if reason := reasons[needs_struct_ops] or why_not_emulated(item):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_runtest_setup() -> None:
    """Begin to count what the host lends to others."""
    TEST.begin()


@pytest.fixture(scope="session", autouse=True)
def _clean_machine() -> None:
    if os.geteuid() == 0:
        clean_leftovers()


@pytest.fixture
def lab() -> Iterator[Lab]:
    """An empty lab, to build in."""
    with Lab() as empty:
        yield empty


@pytest.fixture
def one_processor() -> Iterator[None]:
    """Send and receive on one processor, for two may let packets of a flow overtake each other."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture
def wire() -> Iterator[Path]:
    """Two hosts on one link without delay and limit."""
    with two_hosts() as path:
        yield path


@pytest.fixture
def path_100mbit() -> Iterator[Path]:
    """A bottleneck of 100 Mbit/s at a router, with a buffer of 20 ms."""
    with bottleneck(rate_bytes_per_s=12.5e6, buffer_bytes=250_000) as path:
        yield path


@pytest.fixture
def start_transfer() -> Iterator[Callable[..., IperfRun]]:
    """Start iperf3 transfers, arguments as of `start_iperf3`; those that still run end with the test."""
    with ExitStack() as transfers:
        yield lambda *hosts, **options: transfers.enter_context(start_iperf3(*hosts, **options))
