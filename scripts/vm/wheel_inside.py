"""First steps of a new user with the wheel, in a machine with Debian's Python, without ccplane or a compiler.

The duration of each step is written to /mnt/out/wheel.json.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

OUT: Final = Path("/mnt/out")
RESULT: Final = "wheel.json"
WHEELS: Final = Path("/mnt/wheels")
"""Mounted share with the wheel and its dependencies."""
HOME: Final = Path("/root")
VENV: Final = HOME / "ccplane"
COMPILERS: Final = ("cc", "gcc", "c++", "clang", "rustc", "cargo")
USER: Final = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups")
ENVIRONMENT: Final = {
    **{name: value for name, value in os.environ.items() if name.startswith("CCPLANE_")},
    "PATH": f"{VENV}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": str(HOME),
    "LC_ALL": "C.UTF-8",
    "COLUMNS": "120",
}
"""Without the checkout, which is also mounted."""
DEMO_S: Final = 4
FLOW_S: Final = 40
"""Longer than `ccp flows` takes on an emulated processor."""
DEMO: Final = ("ccp", "demo", "--json", "--seconds", str(DEMO_S))


class StepError(Exception):
    """A step failed."""


def main() -> int:
    """Run all steps; return the exit status."""
    found: dict[str, Any] = {"seconds": {}, "bytes": {}}
    try:
        _install(found)
        _load(found)
        _on_sockets(found)
        _simulated(found)
    except StepError as error:
        print(f"wheel: failed: {error}", file=sys.stderr)
        return 1
    (OUT / RESULT).write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _install(found: dict[str, Any]) -> None:
    there = [name for name in COMPILERS if shutil.which(name, path=ENVIRONMENT["PATH"])]
    if there:
        raise StepError(f"this root file system has compilers: {', '.join(there)}")
    (wheel,) = WHEELS.glob("ccplane-*.whl")
    found["wheel"], found["bytes"]["wheel"] = wheel.name, wheel.stat().st_size
    VENV.parent.chmod(0o755)
    with _step(found, "venv"):
        _run("/usr/bin/python3", "-m", "venv", str(VENV))
    empty = _bytes_in(VENV)
    for name, wanted in (("install", str(wheel)), ("install [lab]", f"{wheel}[lab]")):
        with _step(found, name):
            # An emulated processor would take minutes to compile modules.
            options = ("--quiet", "--no-compile", "--no-index", "--find-links", str(WHEELS))
            _run("pip", "install", *options, wanted)
        found["bytes"][name] = _bytes_in(VENV) - empty
    site = next(VENV.glob("lib/python3*/site-packages"))
    reported = _run("ldd", str(site / "ccplane/base/_native.abi3.so"))
    found["ldd"] = re.findall(r"^\s*(\S+)", reported, re.MULTILINE)


def _load(found: dict[str, Any]) -> None:
    _run("ccp", "--version")
    with _step(found, "doctor"):
        _run("ccp", "doctor")


def _simulated(found: dict[str, Any]) -> None:
    Path("/tmp/user").mkdir(mode=0o777)
    Path("/tmp/user").chmod(0o777)
    with _step(found, "demo, simulated"):
        reported = _run(*USER, "env", "HOME=/tmp/user", *DEMO, cwd="/tmp/user")
    found["simulated"] = json.loads(reported)


def _on_sockets(found: dict[str, Any]) -> None:
    with _step(found, "demo, sockets"):
        reported = _run(*DEMO, "--datapath", "ebpf")
    found["sockets"] = json.loads(reported)
    _run("ccp", "new", "mine")
    _run("ccp", "check", "mine.py")
    agent = subprocess.Popen(["ccp", "run", "mine.py", "--reload"], env=ENVIRONMENT, cwd=HOME)
    try:
        with _step(found, "agent"):
            _wait_for_agent(agent)
        server = subprocess.Popen(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        time.sleep(2)
        client = ("iperf3", "-c", "127.0.0.1", "-t", str(FLOW_S), "-C", "ccp.mine", "--json")
        flow = subprocess.Popen(client, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        time.sleep(2)
        if "mine" not in _run("ccp", "flows"):
            raise StepError("the flow is not steered by mine.py")
        reported, _ = flow.communicate()
        server.wait()
        found["iperf3_bits_per_s"] = round(json.loads(reported)["end"]["sum_received"]["bits_per_second"])
    finally:
        agent.terminate()
        agent.wait()
    _run("ccp", "unload")


def _wait_for_agent(agent: subprocess.Popen[bytes]) -> None:
    command = ["ccp", "flows"]
    while subprocess.run(command, capture_output=True, env=ENVIRONMENT, check=False).returncode:
        if agent.poll() is not None:
            raise StepError(f"`ccp run` exited with status {agent.returncode}")
        time.sleep(0.2)


@contextlib.contextmanager
def _step(found: dict[str, Any], name: str) -> Iterator[None]:
    begin_s = time.monotonic()
    yield
    found["seconds"][name] = round(time.monotonic() - begin_s, 1)
    print(f"wheel: {found['seconds'][name]:6.1f} s  {name}", flush=True)


def _run(*command: str, cwd: str = str(HOME)) -> str:
    print("$", *command, flush=True)
    done = subprocess.run(command, env=ENVIRONMENT, cwd=cwd, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="", flush=True)
    if done.returncode:
        raise StepError(f"`{' '.join(command)}` exited with status {done.returncode}")
    return done.stdout


def _bytes_in(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


if __name__ == "__main__":
    sys.exit(main())
