"""The steps of `python -m scripts.vm.services` in the machine."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from ccplane.agent.features.rtcp.tables import known_tables
from ccplane.datapath import ebpf
from experiments.bench.bpf_objects import maps
from scripts.vm.connections import Connections, opened
from scripts.vm.inside import NOBODY, status_of
from scripts.vm.systemd import journal, logged, said, shown, wait_until

RESULT: Final = "services.json"
OUT: Final = Path("/mnt/out", RESULT)
SERVICES: Final = ("agent", "receiver", "rtcp", "mosquitto")
AGENT: Final = "ccplane-agent"
ETC: Final = Path("/etc/ccplane")
USERS: Final = {"host-a": "agent", "recv-b": "receiver"}
CAPABILITIES: Final = {
    "agent": ("CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"),
    "receiver": ("CAP_BPF", "CAP_PERFMON"),
    "rtcp": ("CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"),
}
STATUS: Final = ("Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
BPF_FS: Final = Path("/sys/fs/bpf")
PLACES: Final = ("run", "run/credentials", "var/lib", "var/lib/private", "sys/fs/bpf")
"""Directories with directories of services."""
CHILD: Final = Path("/var/lib/ccplane/child")
ALGORITHMS: Final = f"""
import subprocess
import sys

from ccp_algs.example_aimd import Aimd

class Asking(Aimd):
    name = "asking"

    def on_create(self, info):
        super().on_create(info)
        with open("{CHILD}", "a") as file:
            subprocess.run(["grep", "-e", "^Cap", "-e", "^NoNewPrivs", "/proc/self/status"], stdout=file)

class Exiting(Aimd):
    name = "exiting"

    def on_report(self, report):
        if self.flow.info.dst_port == EXIT_PORT:
            sys.exit(3)
"""
EXIT_PORT: Final = 7777
SENDING_PORT: Final = 7778
BOX: Final = "box"
"""Network namespace whose default congestion control is `ccp`, as in a container."""
CHECKOUT: Final = Path("/mnt/checkout")
NEW_VERSION: Final = "new version: "
HEARTBEAT_MS: Final = "2000"
"""Heartbeat timeout [ms]: ten times the usual one, as an emulated processor is ten times slower."""

Found = dict[str, Any]


def main() -> int:
    """Run all steps, and write their results; return the exit status."""
    steps: dict[str, Found] = {}
    found = {"systemd": said("systemctl", "--version").split("\n")[0], "steps": steps}

    def run(step: Callable[[], Found], connections: Connections | None = None) -> None:
        print(f"== {step.__name__}", flush=True)
        begin_us = time.monotonic_ns() // 1000
        done = step()
        if connections is not None:
            lost = connections.talk()
            if lost:
                raise RuntimeError(f"{lost} connections were lost\n{journal()}")
            done["connections"], done["lost"] = len(connections), lost
            if shown(AGENT, "ActiveState") == "active":
                wait_until(lambda: steered(connections))
                done["fallback_ms"] = longest_fallback_ms(begin_us)
        seconds = round((time.monotonic_ns() // 1000 - begin_us) / 1e6, 1)
        steps[step.__name__] = {"what": (step.__doc__ or "").strip(". "), **done, "seconds": seconds}
        print(json.dumps(steps[step.__name__], indent=1), flush=True)
        OUT.write_text(json.dumps(found, indent=1) + "\n")

    before = maps()
    for step in (install, start, owners, failure, without, exposure):
        run(step)
    with opened("ccp", SENDING_PORT, (NOBODY, 1000, 4), (boxed(), 50, 1)) as connections:
        for step in (connect, child, limits, upgrade, settings, refused, crash, exits, hang, stop, remove):
            run(step, connections)

    def left() -> Found:
        """Nothing left in the kernel after the last connection."""
        names = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
        there = [name for name in names if name.startswith(("ccp", "rtcp"))]
        there += map(str, BPF_FS.glob("ccplane*"))
        wait_until(lambda: not maps() - before)
        assert not there, there
        return {"came_out": "no congestion control, map or pin of ccplane"}

    run(left)
    return 0


# --- helpers ------------------------------------------------------------------------------------------------


def units(*services: str) -> tuple[str, ...]:
    """Return the units of services."""
    return tuple(f"ccplane-{service}" for service in services)


def agent() -> tuple[str, str, str]:
    """Return the agent's main process, its state, and the number of its restarts."""
    return shown(AGENT, "MainPID"), shown(AGENT, "ActiveState"), shown(AGENT, "NRestarts")


def write_run(*arguments: str) -> None:
    """Write the agent's settings."""
    way = "mqtt://host-a@127.0.0.1?password_file=/run/credentials/ccplane-agent.service/broker"
    also = ("--broker", way, "--sender", "host-a", "--audit", "/var/lib/ccplane/audit")
    also += ("--heartbeat-timeout", HEARTBEAT_MS)
    (ETC / "agent.env").write_text(f"CCP_RUN='{' '.join((*arguments, *also))}'\n")


def algorithms() -> tuple[str, ...]:
    """Return the arguments that name the agent's algorithms."""
    return ("cubic", f"{ETC}/tested.py:Asking", f"{ETC}/tested.py:Exiting")


def boxed() -> tuple[str, ...]:
    """Make a network namespace whose default is `ccp`; return the prefix of commands in it."""
    enter = ("ip", "netns", "exec", BOX)
    said("ip", "netns", "add", BOX)
    said(*enter, "ip", "link", "set", "lo", "up")
    said(*enter, "sysctl", "-w", "net.ipv4.tcp_congestion_control=ccp")
    return enter


def steered(connections: Connections) -> bool:
    """Return whether the agent controls all connections; lets them send if not."""
    stats = ebpf.observe(ebpf.DEFAULT_PIN_DIR).all_stats()
    if len(stats) >= len(connections) and not any(one.fallback for one in stats):
        return True
    connections.talk()
    return False


def longest_fallback_ms(begin_us: int) -> float:
    """Return the longest time since a time that a flow spent in the fallback, of those that always send.

    An idle flow is there until its next ACK.
    """
    view = ebpf.observe(ebpf.DEFAULT_PIN_DIR)
    sending = {info.flow_id for info in view.flows() if SENDING_PORT in (info.src_port, info.dst_port)}
    periods = [
        one.fallback_left_us - max(one.fallback_entered_us, begin_us)
        for one in view.all_stats()
        if one.flow_id in sending and one.fallback_left_us > begin_us
    ]
    assert sending
    return round(max(periods, default=0) / 1000, 1)


# --- before there are connections ---------------------------------------------------------------------------


def install() -> Found:
    """Install (`ccp service install`), with passwords and certificates."""
    lines = said("ccp", "service", "install", *SERVICES).splitlines()
    passwords = "".join(f"secret of {user}\n" for user in USERS)
    said(str(ETC / "mosquitto/make-secrets.sh"), "localhost,127.0.0.1", *USERS, given=passwords)
    for user, unit in USERS.items():
        (ETC / f"{unit}.password").write_text(f"secret of {user}\n")
    (ETC / "tested.py").write_text(ALGORITHMS.replace("EXIT_PORT", str(EXIT_PORT)))
    write_run(*algorithms(), "--max-flows", "4096")
    way = "mqtt://recv-b@127.0.0.1?password_file=/run/credentials/ccplane-receiver.service/broker"
    (ETC / "receiver.env").write_text(f"CCP_RECEIVE='--broker {way}'\n")
    return {"came_out": f"{sum(line.startswith('wrote') for line in lines)} files"}


def start() -> Found:
    """Start of four services (`systemctl start` returns when a unit is ready)."""
    seen: dict[str, Found] = {}

    def started(unit: str) -> None:
        begin_s = time.monotonic()
        said("systemctl", "start", unit)
        pid = shown(unit, "MainPID")
        seen[unit] = {"ready_after_s": round(time.monotonic() - begin_s, 1), **status_of(pid, *STATUS)}
        command = Path(f"/proc/{pid}/cmdline").read_text()
        assert "secret of" not in command + Path(f"/proc/{pid}/environ").read_text()
        assert (seen[unit]["NoNewPrivs"], seen[unit]["Seccomp"]) == ("1", "2")

    started("ccplane-mosquitto")
    with ThreadPoolExecutor() as pool:
        list(pool.map(started, units(*CAPABILITIES)))
    uids = {one["Uid"] for one in seen.values()}
    assert len(uids) == len(SERVICES), seen
    assert "0" not in uids
    slowest = max(one["ready_after_s"] for one in seen.values())
    return {"came_out": f"four users; the slowest is ready after {slowest} s", "units": seen}


def owners() -> Found:
    """No service can change or read what belongs to another one."""
    owned = {}
    for unit in units(*SERVICES):
        user, pid = shown(unit, "User"), shown(unit, "MainPID")
        uid, gid = status_of(pid, "Uid", "Gid").values()
        places = [str(one) for place in PLACES for one in Path("/", place).glob("ccplane*")]
        places += [str(one) for one in ETC.iterdir()]
        as_user = ("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups")
        find = ("find", *places, "(", "-writable", "-not", "-type", "l", ")", "-print")
        seen = subprocess.run([*as_user, *find], capture_output=True, text=True).stdout.split("\n")
        own = rf"/(run|var/lib|var/lib/private|sys/fs/bpf)/{user}(/|$)"
        foreign = [path for path in seen if path and not re.match(own, path)]
        assert not foreign, (unit, foreign)
        secrets = [one for one in places if "credentials" in one or one.endswith(".password")]
        secrets += [f"/proc/{shown(other, 'MainPID')}/mem" for other in units(*SERVICES) if other != unit]
        reads = [one for one in secrets if subprocess.run([*as_user, "test", "-r", one]).returncode == 0]
        assert not [one for one in reads if f"{unit}.service" not in one], (unit, reads)
        owned[unit] = {"user": user, "writable": sum(bool(path) for path in seen)}
        assert user == (pwd.getpwuid(int(uid)).pw_name if user != "ccplane-bus" else user)
    return {"came_out": "each user can write only to its own directories", "units": owned}


def failure() -> Found:
    """A service that cannot start: systemd gives up, with an alert."""
    unit = "ccplane-receiver"
    drop_in = Path(f"/run/systemd/system/{unit}.service.d/failure.conf")
    drop_in.parent.mkdir(parents=True, exist_ok=True)
    drop_in.write_text("[Service]\nExecStart=\nExecStart=/bin/false\n")
    said("systemctl", "daemon-reload")
    said("systemctl", "restart", unit, fails=True)

    def alerts() -> list[str]:
        words = ("journalctl", "--no-pager", "--output=cat", "-p", "alert", "-t", unit)
        return [line for line in said(*words).splitlines() if f"reset-failed {unit}" in line]

    wait_until(alerts)
    assert shown(unit, "ActiveState") == "failed"
    drop_in.unlink()
    said("systemctl", "daemon-reload")
    said("systemctl", "reset-failed", unit)
    return {"came_out": f"one alert: {alerts()[0].partition(',')[0]}", "alerts": alerts()}


def without() -> Found:
    """Starts without each capability."""
    seen: dict[str, dict[str, str]] = {unit: {} for unit in units(*CAPABILITIES)}
    for missing in CAPABILITIES["agent"]:
        services = [service for service, names in CAPABILITIES.items() if missing in names]
        drop_ins = []
        for service in services:
            kept = " ".join(name for name in CAPABILITIES[service] if name != missing)
            drop_in = Path(f"/run/systemd/system/ccplane-{service}.service.d/without.conf")
            drop_in.parent.mkdir(parents=True, exist_ok=True)
            drop_in.write_text(
                "[Service]\nRestart=no\nAmbientCapabilities=\nCapabilityBoundingSet=\n"
                f"AmbientCapabilities={kept}\nCapabilityBoundingSet={kept}\n"
            )
            drop_ins.append(drop_in)
        said("systemctl", "daemon-reload")
        said("systemctl", "stop", *units(*services))
        if "agent" in services:
            said("ccp", "unload")
        begin_s = time.time()
        subprocess.run(["systemctl", "start", *units(*services)], capture_output=True, check=False)
        time.sleep(2)
        for unit in units(*services):
            lines = [line.strip() for line in logged(unit, begin_s)]
            why = [line for line in lines if re.search(r"^\w+\.\w+:|not available|why", line)]
            seen[unit][missing] = f"{shown(unit, 'ActiveState')}; {' '.join(why)[:300]}"
        for drop_in in drop_ins:
            drop_in.unlink()
    said("systemctl", "daemon-reload")
    subprocess.run(["systemctl", "reset-failed", *units(*CAPABILITIES)], capture_output=True, check=False)
    said("systemctl", "restart", *units(*CAPABILITIES))
    failed = [
        f"{unit} without {name}"
        for unit, found in seen.items()
        for name, why in found.items()
        if why.startswith("failed")
    ]
    return {"came_out": f"failed: {', '.join(failed)}", "units": seen}


def exposure() -> Found:
    """Exposure of the units (`systemd-analyze security`)."""
    levels = {}
    for unit in units(*SERVICES):
        text = said("systemd-analyze", "security", "--no-pager", unit)
        level = re.search(r"exposure level for \S+: ([\d.]+)", text)
        assert level is not None, text
        levels[unit] = float(level[1])
        assert levels[unit] <= 3.0
    return {"came_out": ", ".join(f"{unit} {level}" for unit, level in levels.items()), "levels": levels}


# --- while there are connections ----------------------------------------------------------------------------


def connect() -> Found:
    """Connections of an unprivileged user, and in another network namespace."""
    flows = json.loads(said("ccp", "flows", "--json"))["flows"]
    return {"came_out": f"{len(flows)} flows"}


def child() -> Found:
    """A process that an algorithm starts."""
    with exchanging("ccp.asking"):
        wait_until(CHILD.exists)
    # Includes the trial before loading.
    lines = [line.split(":\t") for line in CHILD.read_text().splitlines()]
    rights = {name: sorted({value for other, value in lines if other == name}) for name, _ in lines}
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert rights[name] == ["0" * 16], rights
    assert rights["NoNewPrivs"] == ["1"]
    return {"came_out": "has no capabilities, and cannot gain any", "rights": rights}


def limits() -> Found:
    """Restart of R-TCP, which keeps its clients; the agent is not affected."""

    def clients() -> list[Any]:
        return [one for table in known_tables() if table.by == "attach" for one in table.clients or ()]

    with exchanging("rtcp_cubic"):
        before, then, begin_s = clients(), agent(), time.time()
        assert [one["client"] for one in before] == ["127.0.0.1"], before
        said("systemctl", "restart", "ccplane-rtcp")
        assert [one["netns_cookie"] for one in clients()] == [before[0]["netns_cookie"]]
    assert agent() == then
    (line,) = [line for line in logged("ccplane-rtcp", begin_s) if "continues with" in line]
    return {"came_out": line.removeprefix("ccp: ")}


def upgrade() -> Found:
    """Another version is installed, and `systemctl reload`."""
    file = CHECKOUT / "ccplane/agent/supervised.py"
    text = file.read_text()
    file.write_text(text.replace('return f"', f'return f"{NEW_VERSION}'))
    assert file.read_text() != text
    return {"came_out": f"the new version's process; {reloaded(NEW_VERSION)}"}


def settings() -> Found:
    """Other settings (`--max-flows`, so that all maps are replaced), and `systemctl reload`."""
    write_run(*algorithms(), "--max-flows", "8192")
    return {"came_out": f"8,192 slots; {reloaded(NEW_VERSION)}"}


def reloaded(status: str) -> str:
    """Reload the agent; return what happened. Its status then begins with a text."""
    pid, state, restarts = agent()
    begin_s = time.time()
    said("systemctl", "reload", AGENT)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    new_pid, new_state, new_restarts = agent()
    assert new_pid != pid
    assert (state, new_state, new_restarts) == ("active", "active", restarts), journal()
    wait_until(lambda: shown(AGENT, "StatusText").startswith(status))
    time.sleep(12)  # longer than WatchdogSec=
    assert agent() == (new_pid, "active", restarts), journal()
    assert not [line for line in logged(AGENT, begin_s) if "not our child" in line or "notification" in line]
    return "the unit stayed active"


def refused() -> Found:
    """A version that cannot start, and `systemctl reload`."""
    before, begin_s = agent(), time.time()
    write_run("no_such_algorithm")
    said("systemctl", "reload", AGENT, fails=True)
    assert agent() == before
    slug = next(line for line in logged(AGENT, begin_s) if "no_such_algorithm" in line).partition(": ")[0]
    write_run(*algorithms(), "--max-flows", "8192")
    return {"came_out": f"the reload fails, the old version keeps the flows; the journal has `{slug}`"}


def crash() -> Found:
    """Crash (SIGKILL); systemd starts another agent."""
    return restarted(lambda pid: os.kill(pid, signal.SIGKILL))


def exits() -> Found:
    """An algorithm calls `sys.exit`."""
    before = agent()
    with exchanging("ccp.exiting", EXIT_PORT):
        wait_until(lambda: "1 failed" in shown(AGENT, "StatusText"))
    assert agent() == before
    return {"came_out": "its flow has the fallback; the agent and all other flows continue"}


def hang() -> Found:
    """Hang (SIGSTOP); the watchdog ends the agent, and systemd starts another one."""
    begin_s = time.time()
    done = restarted(lambda pid: os.kill(pid, signal.SIGSTOP))
    lines = [line for line in logged(AGENT, begin_s) if "atchdog" in line or "Fatal Python" in line]
    assert lines
    return {**done, "journal": lines}


def restarted(hurt: Callable[[int], None]) -> Found:
    """Hurt the agent's process, and wait for another one."""
    pid, _, restarts = agent()
    begin_s = time.monotonic()
    hurt(int(pid))
    wait_until(lambda: shown(AGENT, "NRestarts") != restarts)
    ended_s = time.monotonic() - begin_s
    wait_until(lambda: shown(AGENT, "ActiveState") == "active")
    back_s = time.monotonic() - begin_s
    return {"came_out": f"restarted after {ended_s:.0f} s, ready after {back_s:.0f} s"}


def stop() -> Found:
    """`systemctl stop`; flows use the fallback."""
    said("systemctl", "stop", AGENT)
    assert shown(AGENT, "ActiveState") == "inactive"
    return {"came_out": "stopped"}


def remove() -> Found:
    """`ccp service remove` of all services, then `ccp unload`."""
    said("ccp", "service", "remove", *SERVICES)
    active = said("systemctl", "list-units", "--all", "--plain", "--no-legend", "ccplane-*")
    assert not [line for line in active.splitlines() if " active " in line], active
    assert not list(Path("/etc/systemd/system").glob("ccplane-*"))
    removed = said("ccp", "unload").splitlines()
    return {"came_out": f"{len(removed)} objects removed or moved", "removed": removed}


@contextlib.contextmanager
def exchanging(congestion: str, port: int = 0) -> Any:
    """Keep a connection with a congestion control for a block, after some data over it."""
    with socket.create_server(("127.0.0.1", port)) as listener, socket.socket() as near:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
        near.connect(listener.getsockname())
        far, _ = listener.accept()
        with far:
            for _ in range(20):
                near.sendall(bytes(10_000))
                left = 10_000
                while left:
                    left -= len(far.recv(left))
                time.sleep(0.05)
            yield


if __name__ == "__main__":
    sys.exit(main())
