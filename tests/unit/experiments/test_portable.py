from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

# Third-party packages first: they check sys.platform, and would look for missing files.
BEFORE = """
import asyncio, concurrent.futures, importlib, multiprocessing, os, select, signal, socket, sys, time
import urllib.request
import IPython, matplotlib.pyplot, msgspec, numpy, paho.mqtt.client, pandas, pyarrow.parquet, rich.console
import typer, yaml, zmq

class OnlyOnLinux:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyroute2", "bcc"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, OnlyOnLinux())
LINUX = {
    os: "setns unshare sched_setaffinity sched_getaffinity sched_setscheduler eventfd memfd_create",
    select: "epoll",
    signal: "SIGRTMIN SIGRTMAX sigtimedwait pidfd_send_signal",
    socket: "AF_NETLINK AF_PACKET SO_BINDTODEVICE SO_MARK SO_PEERCRED TCP_CONGESTION TCP_INFO",
    time: "CLOCK_BOOTTIME",
}
for module, names in LINUX.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
sys.platform = "darwin"
from ccplane.base import _native
for name in _native.KERNEL_PART:
    vars(_native).pop(name, None)
_native.try_load = lambda options: []
_native.probe = lambda: {"kernel part": {"ok": False, "detail": "not in this build", "fix": "use Linux"}}
"""
MODULES = (
    "ccplane.agent.cli",
    "ccplane.agent.commands.run",
    "ccp_algs",
    "ccplane.datapath.ebpf",
    "ccplane.datapath.sim",
    "experiments.commands",
    "experiments.demo.command",
    "experiments.netlab.cellular",
    "experiments.plots",
    "experiments.results",
    "experiments.run",
    "experiments.runs.sim",
    "experiments.scenario",
    "experiments.sweep",
)


def without_linux(program: str, scratch: Path) -> subprocess.CompletedProcess[str]:
    # A separate folder: tests on Linux would take files of such a process for those of a dead one.
    return subprocess.run(
        [sys.executable, "-c", BEFORE + program],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_modules_of_the_simulator_import_without_linux(tmp_path: Path) -> None:
    done = without_linux(f"for name in {MODULES!r}: print(name); importlib.import_module(name)", tmp_path)
    assert done.returncode == 0, done.stdout.splitlines()[-1] + done.stderr
    assert done.stdout.split() == list(MODULES)


def test_the_demo_runs_in_the_simulator_without_linux(tmp_path: Path) -> None:
    output = tmp_path / "demo.svg"
    arguments = ["ccp demo", "--seconds", "2", "--out", str(output)]
    done = without_linux(
        f"from experiments.demo import command; sys.argv = {arguments!r}; command.app()", tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == [
        "in the simulator: virtual time, no sockets",
        "  why  kernel part: not in this build",
        "  fix  use Linux",
    ]
    assert output.exists()
