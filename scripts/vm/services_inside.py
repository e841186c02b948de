"""The steps of `python -m scripts.vm.services` in the machine."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from scripts.vm.inside import NOBODY, sending, status_of

OUT: Final = Path("/mnt/out/services.json")
UNITS: Final = ("ccplane-mosquitto", "ccplane-agent", "ccplane-receiver", "ccplane-rtcp")
SERVICES: Final = ("agent", "receiver", "rtcp", "mosquitto")
ETC: Final = Path("/etc/ccplane")
USERS: Final = {"host-a": "agent", "recv-b": "receiver"}
CAPABILITIES: Final = {
    "ccplane-agent": ("CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"),
    "ccplane-receiver": ("CAP_BPF", "CAP_PERFMON"),
    "ccplane-rtcp": ("CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"),
}
STATUS: Final = ("Uid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
CHILD: Final = Path("/var/lib/ccplane/child")
ALGORITHM: Final = f"""
import subprocess
from ccp_algs.example_aimd import Aimd

class Asking(Aimd):
    name = "asking"

    def on_create(self, info):
        super().on_create(info)
        with open("{CHILD}", "a") as file:
            subprocess.run(["grep", "-e", "^Cap", "-e", "^NoNewPrivs", "/proc/self/status"], stdout=file)
"""
PATIENCE_S: Final = 600.0
"""Timeout of waits; an emulated processor is slow [s]."""


def main() -> int:
    """Run all steps, and write their results; return the exit status."""
    found: dict[str, Any] = {
        "kernel": os.uname().release,
        "systemd": said("systemctl", "--version").split("\n")[0],
    }
    for step in (install, start, flow, limits, reload, hang, failure, exposure, without, remove):
        print(f"== {step.__name__}", flush=True)
        found[step.__name__] = step()
        print(json.dumps(found[step.__name__], indent=1), flush=True)
        OUT.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def said(*command: str, given: str | None = None, fails: bool = False) -> str:
    """Run a command and return its output."""
    done = subprocess.run(command, input=given, text=True, capture_output=True, check=False)
    if done.returncode and not fails:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}\n{journal()}")
    return (done.stdout + done.stderr).strip()


def journal(lines: int = 60) -> str:
    """Return the end of the journal."""
    return subprocess.run(["journalctl", "--no-pager", f"-n{lines}"], capture_output=True, text=True).stdout


def shown(unit: str, name: str) -> str:
    """Return a property of a unit."""
    return said("systemctl", "show", "--property", name, "--value", unit)


def wait_until(what: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    end_s = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > end_s:
            raise RuntimeError(f"timeout waiting for {what}\n{journal()}")
        time.sleep(0.5)


def install() -> list[str]:
    """Install units, the broker's secrets, and the users' passwords."""
    reported = said("ccp", "service", "install", *SERVICES).splitlines()
    passwords = "".join(f"secret of {user}\n" for user in USERS)
    said(str(ETC / "mosquitto/make-secrets.sh"), "localhost,127.0.0.1", *USERS, given=passwords)
    for user, unit in USERS.items():
        (ETC / f"{unit}.password").write_text(f"secret of {user}\n")
    way = "mqtt://{}@127.0.0.1?password_file=/run/credentials/ccplane-{}.service/broker"
    (ETC / "asking.py").write_text(ALGORITHM)
    run = f"{ETC}/asking.py:Asking --broker {way.format('host-a', 'agent')} --sender host-a"
    (ETC / "agent.env").write_text(f"CCP_RUN='{run}'\n")
    (ETC / "receiver.env").write_text(f"CCP_RECEIVE='--broker {way.format('recv-b', 'receiver')}'\n")
    return [line for line in reported if line.startswith("wrote")]


def start() -> dict[str, Any]:
    """Start all units; `systemctl start` returns when a unit is ready."""
    seen = {}
    for unit in UNITS:
        begin_s = time.monotonic()
        said("systemctl", "start", unit)
        pid = shown(unit, "MainPID")
        seen[unit] = {"ready_after_s": round(time.monotonic() - begin_s, 1), **status_of(pid, *STATUS)}
        command = Path(f"/proc/{pid}/cmdline").read_text()
        assert "secret of" not in command + Path(f"/proc/{pid}/environ").read_text()
        assert seen[unit]["Uid"] != "0"
        assert (seen[unit]["NoNewPrivs"], seen[unit]["Seccomp"]) == ("1", "2")
    uid = said("id", "-u", "ccplane")
    assert seen["ccplane-agent"]["Uid"] == seen["ccplane-receiver"]["Uid"] == uid
    return seen


def flow() -> dict[str, Any]:
    """Let the agent control an unprivileged user's flow."""
    with sending(*NOBODY) as sent:
        wait_until(lambda: served(shown("ccplane-agent", "StatusText")))
        status = shown("ccplane-agent", "StatusText")
    reported = [
        line.split(":\t") for line in CHILD.read_text().splitlines()
    ]  # includes the trial before loading
    child = {name: sorted({value for other, value in reported if other == name}) for name, _ in reported}
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert child[name] == ["0" * 16], child
    assert child["NoNewPrivs"] == ["1"]
    return {**sent, "status": status, "child": child}


def limits() -> dict[str, Any]:
    """Let R-TCP find an ordinary socket's client, and keep it over a restart of the unit."""

    def clients() -> list[Any]:
        tables = json.loads(said("ccp", "rtcp", "show", "--json"))
        return [client for table in tables if table["by"] == "attach" for client in table["clients"] or ()]

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as near:
        near.connect(listener.getsockname())
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"rtcp_cubic")
        before = clients()
        assert [client["client"] for client in before] == ["127.0.0.1"], before
        said("systemctl", "restart", "ccplane-rtcp")
        assert [client["netns_cookie"] for client in clients()] == [before[0]["netns_cookie"]]
    reported = said("journalctl", "--no-pager", "--output=cat", "-u", "ccplane-rtcp").splitlines()
    assert any("continues with the existing table of 1 clients" in line for line in reported), reported
    return {"status": shown("ccplane-rtcp", "StatusText"), "journal": reported[-3:]}


def served(status: str) -> bool:
    """Return whether an agent's status line has flows and reports."""
    return not re.search(r"\b0 (flows|reports)\b", status)


def reload() -> str:
    """Reload all algorithms."""
    return said("systemctl", "reload", "ccplane-agent") or shown("ccplane-agent", "ActiveState")


def hang() -> dict[str, Any]:
    """Stop the agent's process, as if its loop hung, while a flow sends."""
    with sending() as sent:
        wait_until(lambda: served(shown("ccplane-agent", "StatusText")))
        before, restarts = shown("ccplane-agent", "MainPID"), shown("ccplane-agent", "NRestarts")
        os.kill(int(before), signal.SIGSTOP)
        begin_s = time.monotonic()
        wait_until(lambda: shown("ccplane-agent", "NRestarts") != restarts)
        ended_s = time.monotonic() - begin_s
        wait_until(lambda: shown("ccplane-agent", "ActiveState") == "active")
        back_s = time.monotonic() - begin_s
        wait_until(lambda: served(shown("ccplane-agent", "StatusText")))
        status = shown("ccplane-agent", "StatusText")
        assert shown("ccplane-agent", "MainPID") != before
    return {
        "ended_after_s": round(ended_s, 1),
        "ready_again_after_s": round(back_s, 1),
        "status_then": status,
        **sent,
        "journal": [
            line.partition("]: ")[2]
            for line in said("journalctl", "--no-pager", "-u", "ccplane-agent").splitlines()
            if "atchdog" in line or "Fatal Python" in line or "restart job" in line
        ],
    }


def failure() -> list[str]:
    """Let a service fail until systemd gives up; return the alerts in the journal."""
    drop_in = Path("/run/systemd/system/ccplane-receiver.service.d/failure.conf")
    drop_in.parent.mkdir(parents=True, exist_ok=True)
    drop_in.write_text("[Service]\nExecStart=\nExecStart=/bin/false\n")
    said("systemctl", "daemon-reload")
    said("systemctl", "restart", "ccplane-receiver", fails=True)

    def alerts() -> list[str]:
        words = ("journalctl", "--no-pager", "--output=cat", "-p", "alert", "-t", "ccplane-receiver")
        return [line for line in said(*words).splitlines() if "reset-failed ccplane-receiver" in line]

    wait_until(lambda: bool(alerts()))
    assert shown("ccplane-receiver", "ActiveState") == "failed"
    drop_in.unlink()
    said("systemctl", "daemon-reload")
    said("systemctl", "reset-failed", "ccplane-receiver")
    said("systemctl", "start", "ccplane-receiver")
    return alerts()


def exposure() -> dict[str, float]:
    """Return systemd's exposure levels of the units."""
    levels = {}
    for unit in UNITS:
        text = said("systemd-analyze", "security", "--no-pager", unit)
        level = re.search(r"exposure level for \S+: ([\d.]+)", text)
        assert level is not None, text
        levels[unit] = float(level[1])
        assert levels[unit] <= 3.0
    return levels


def without() -> dict[str, dict[str, str]]:
    """Return what fails without each capability."""
    seen: dict[str, dict[str, str]] = {}
    for unit, all_of_them in CAPABILITIES.items():
        seen[unit] = {}
        for one in all_of_them:
            kept = " ".join(other for other in all_of_them if other != one)
            drop_in = Path(f"/run/systemd/system/{unit}.service.d/without.conf")
            drop_in.parent.mkdir(parents=True, exist_ok=True)
            drop_in.write_text(
                "[Service]\nRestart=no\nAmbientCapabilities=\nCapabilityBoundingSet=\n"
                f"AmbientCapabilities={kept}\nCapabilityBoundingSet={kept}\n"
            )
            said("systemctl", "daemon-reload")
            said("systemctl", "stop", unit)
            if unit == "ccplane-agent":
                said("ccp", "unload")
            begin = said("date", "+%s")
            said("systemctl", "start", unit, fails=True)
            time.sleep(3)
            lines = said(
                "journalctl", "--no-pager", "--output=cat", "-u", unit, f"--since=@{begin}"
            ).splitlines()
            why = [line.strip() for line in lines if re.search(r"^\w+\.\w+:|not available|why", line.strip())]
            seen[unit][one] = f"{shown(unit, 'ActiveState')}; {' '.join(why)[:300]}"
            drop_in.unlink()
        said("systemctl", "daemon-reload")
        said("systemctl", "reset-failed", unit, fails=True)
        said("systemctl", "restart", unit)
    return seen


def remove() -> list[str]:
    """Remove everything."""
    reported = said("ccp", "service", "remove", *SERVICES).splitlines()
    left = said("systemctl", "list-units", "--all", "--plain", "--no-legend", "ccplane-*")
    assert not [line for line in left.splitlines() if " active " in line], left
    assert not list(Path("/etc/systemd/system").glob("ccplane-*"))
    reported += said("ccp", "unload").splitlines()
    assert "ccp" not in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    return reported


if __name__ == "__main__":
    sys.exit(main())
