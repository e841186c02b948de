"""The steps of `python -m scripts.vm.compose` in the machine: start all services, check each, stop them.

A failed step is recorded, and later steps still run.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from scripts.vm.inside import NOBODY, sending, status_of

RESULT: Final = "compose.json"
OUT: Final = Path("/mnt/out")
STORAGE: Final = """[storage]
driver = "overlay"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
[storage.options]
additionalimagestores = ["/mnt/containers/store"]
"""
PROJECT: Final = "ccplane"
COMPOSE: Final = (sys.executable, "-m", "podman_compose", "--project-name", PROJECT)
SERVICES: Final = ("mosquitto", "agent", "receiver", "prometheus", "notebook")
"""Services that keep running; `secrets` exits."""
PATIENCE_S: Final = 600.0
"""Timeout of waits; an emulated processor is slow [s]."""
CCPLANE_UID: Final = "10001"
STATUS: Final = ("Uid", "CapPrm", "CapEff", "NoNewPrivs", "Seccomp")
CAPABILITIES: Final = {"CAP_NET_ADMIN": 12, "CAP_PERFMON": 38, "CAP_BPF": 39}
KILLED: Final = 128 + signal.SIGKILL
PLAIN: Final = 1883
TLS: Final = 8883
OTHER_RUN: Final = 'cubic reno --rule "dst=10.0.0.0/8 -> reno"'
ASK_STATUS: Final = (
    "import json; from ccplane.agent.client import Client; print(json.dumps(Client().status()))"
)

ONLINE: Final = {"ccp/v1/status/agent", "ccp/v1/status/receiver"}
SIGNALS: Final = "ccp/v1/signal/receiver/"
QUERIES: Final = (
    "sum(ccplane_flows)",
    "sum(ccplane_throughput_bytes_per_second)",
    "ccplane_telemetry_delivered_total",
)
"""Queries of Prometheus that a flow makes positive."""

Facts = dict[str, Any]


class StepError(Exception):
    """A step failed."""


def main() -> int:
    """Run all steps, and write their results; return the exit status."""
    Path("/etc/containers/storage.conf").write_text(STORAGE)
    found: Facts = {
        "podman": said("podman", "--version").split()[-1],
        "podman-compose": re.findall(r"podman-compose version (\S+)", said(*COMPOSE, "version"))[0],
        "steps": {},
    }
    failed = False
    for step in (images, up, secrets, bus, agent, receiver, flow, notebook, prometheus, change, down, unload):
        print(f"== {step.__name__}", flush=True)
        begin_s = time.monotonic()
        one: Facts = {"what": (step.__doc__ or "").rstrip(".")}
        try:
            one["came_out"], facts = step()
        except Exception as error:  # the next step still runs
            traceback.print_exc()
            failed = True
            one["came_out"], facts = f"failed: {error}".split("\n")[0], {}
            logs()
        one |= {"seconds": round(time.monotonic() - begin_s, 1), **facts}
        print(json.dumps(one, indent=1), flush=True)
        found["steps"][step.__name__] = one
        (OUT / RESULT).write_text(json.dumps(found, indent=1) + "\n")
    return int(failed)


def said(*command: str, fails: bool = False) -> str:
    """Run a command and return its output."""
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode and not fails:
        raise StepError(f"`{' '.join(command)}`: status {done.returncode}: {done.stdout}{done.stderr}")
    return (done.stdout + done.stderr).strip()


def container(service: str) -> str:
    """Return the name of a service's container."""
    return f"{PROJECT}_{service}_1"


def inside(service: str, *command: str) -> str:
    """Run a command in a service's container."""
    return said("podman", "exec", container(service), *command)


def wait_until(name: str, what: Callable[[], Any]) -> Any:
    """Wait until a function returns a true value, and return it; errors count as false."""
    end_s = time.monotonic() + PATIENCE_S
    error: Exception | None = None
    while time.monotonic() < end_s:
        try:
            if value := what():
                return value
        except (StepError, OSError, ValueError) as raised:
            error = raised
        time.sleep(1)
    raise StepError(f"timeout after {PATIENCE_S:g} s: {name}; {error}")


def logs() -> None:
    """Write the logs of all containers."""
    for service in ("secrets", *SERVICES):
        text = said("podman", "logs", container(service), fails=True)
        (OUT / f"{service}.log").write_text(text + "\n")


def state(service: str) -> Facts:
    """Return podman's description of a service's container."""
    found: list[Facts] = json.loads(said("podman", "inspect", container(service)))
    return found[0]


def images() -> tuple[str, Facts]:
    """Images, built by `podman build`."""
    listed = json.loads(said("podman", "images", "--format", "json"))
    mb = {image["Names"][0]: round(image["Size"] / 1e6) for image in listed}
    reported = (f"`{name.rpartition('/')[2].partition(':')[0]}` {size} MB" for name, size in mb.items())
    return ", ".join(reported), {"images_mb": mb}


def up() -> tuple[str, Facts]:
    """Services up (`up -d`)."""
    print(said(*COMPOSE, "up", "--detach", "--no-build"))
    states = wait_until("all run", running)
    return f"{len(states)} services run", {"restarts": states}


def running() -> dict[str, int]:
    """Return the restarts of each service; empty if a service does not run."""
    states = {service: state(service) for service in SERVICES}
    if not all(one["State"]["Running"] for one in states.values()):
        return {}
    return {service: one["RestartCount"] for service, one in states.items()}


def secrets() -> tuple[str, Facts]:
    """Passwords, certificates (`secrets`)."""
    wait_until("secrets end", lambda: state("secrets")["State"]["Status"] == "exited")
    if (code := state("secrets")["State"]["ExitCode"]) != 0:
        raise StepError(f"`secrets` exited with status {code}")
    for user in ("agent", "receiver", "notebook"):
        files = inside(user, "find", "/secrets", "-type", "f")
        if files != "/secrets/password":
            raise StepError(f"`{user}` sees {files}")
    return "`secrets` exited with status 0; each service sees only its own password", {"exit_code": code}


def volume(name: str) -> Path:
    """Return the path of a volume."""
    return Path(said("podman", "volume", "inspect", "--format", "{{.Mountpoint}}", f"{PROJECT}_{name}"))


@functools.cache
def password() -> str:
    """Return the notebook's password."""
    return (volume("notebook-secrets") / "password").read_text().strip()


@contextlib.contextmanager
def on_bus(port: int, user: str | None = None, secret: str | None = None) -> Iterator[tuple[str, list[str]]]:
    """Connect to the broker; yield its answer, and the topics of messages during the block."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    answers: list[str] = []
    topics: list[str] = []
    client.on_connect = lambda _client, _data, _flags, reason, _properties: answers.append(str(reason))
    client.on_message = lambda _client, _data, message: topics.append(message.topic)
    if user is not None:
        client.username_pw_set(user, secret)
    if port == TLS:
        client.tls_set(ca_certs=str(volume("bus-secrets") / "ca.crt"), tls_version=ssl.PROTOCOL_TLS_CLIENT)
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        answer = wait_until("the broker answers", lambda: answers and answers[0])
        if answer == "Success":
            client.subscribe("ccp/v1/#")
        yield answer, topics
    finally:
        client.loop_stop()
        client.disconnect()


def bus() -> tuple[str, Facts]:
    """Mosquitto: users, TLS."""
    tries = {
        "anonymous": (PLAIN, None, None),
        "anonymous, TLS": (TLS, None, None),
        "wrong password, TLS": (TLS, "notebook", "wrong"),
        "password": (PLAIN, "notebook", password()),
        "password, TLS": (TLS, "notebook", password()),
    }
    answers = {}
    for name, (port, user, secret) in tries.items():
        with on_bus(port, user, secret) as (answer, _):
            answers[name] = answer
        if (answer == "Success") != name.startswith("password"):
            raise StepError(f"{name}: {answer}")
    reported = "accepts a password, with and without TLS; refuses a wrong or missing one"
    return reported, {"answers": answers}


def agent() -> tuple[str, Facts]:
    """Agent ready, as the user `ccplane`."""
    reported = wait_until("the agent is ready", lambda: inside("agent", "ccp", "flows"))
    seen = {service: status_of(state(service)["State"]["Pid"], *STATUS) for service in SERVICES}
    for service, one in seen.items():
        mask = sum(1 << bit for bit in CAPABILITIES.values()) if service == "agent" else 0
        if (one["Uid"], int(one["CapEff"], 16), int(one["CapPrm"], 16)) != (CCPLANE_UID, mask, mask):
            raise StepError(f"{service}: {one}")
        if (one["NoNewPrivs"], one["Seccomp"]) != ("1", "2"):
            raise StepError(f"{service}: {one}")
    names = ", ".join(sorted(CAPABILITIES))
    return f"the agent has {names}; the other services have no capabilities", {
        "may": seen,
        "ccp_flows": reported.splitlines(),
    }


def scraped(query: str) -> float:
    """Return the value of a query of Prometheus; 0 without a value."""
    address = f"http://127.0.0.1:9090/api/v1/query?query={urllib.parse.quote(query)}"
    with urllib.request.urlopen(address, timeout=60) as answer:
        found = json.load(answer)["data"]["result"]
    return float(found[0]["value"][1]) if found else 0.0


def receiver() -> tuple[str, Facts]:
    """Agent and receiver on the bus."""
    with on_bus(TLS, "notebook", password()) as (_, topics):
        wait_until("both are online", lambda: set(topics) >= ONLINE)
    return "the agent and the receiver are online on the bus", {"topics": sorted(set(topics))}


def flow() -> tuple[str, Facts]:
    """An unprivileged user's flow over loopback, `iperf3 -C ccp`."""
    seen: Facts = {}
    with sending(*NOBODY) as sent, on_bus(TLS, "notebook", password()) as (_, topics):
        rows = seen["steered"] = wait_until("the flow is steered", steered)
        wait_until("signals", lambda: any(one.startswith(SIGNALS) for one in topics))
        seen["scraped"] = {one: wait_until(one, functools.partial(scraped, one)) for one in QUERIES}
    seen |= sent
    reported = f"the flow is controlled by `{rows[0]['steered_by']}` at {sent['sent_mbit_per_s']:g} Mbit/s; "
    return reported + "the agent receives the receiver's signals; Prometheus counts flow and signals", seen


def steered() -> list[Facts]:
    """Return the flows that the agent's algorithm steers."""
    rows: list[Facts] = json.loads(inside("agent", "ccp", "flows", "--json"))["flows"]
    return [row for row in rows if row["steered_by"].startswith("cubic")]


def notebook() -> tuple[str, Facts]:
    """Notebook: token, and `ccplane.agent.client.Client()`."""
    token = wait_until("a token", token_of)
    answers: Facts = {}
    for name, query in {"without token": "", "with token": f"?token={token}"}.items():
        address = f"http://127.0.0.1:8888/api/status{query}"
        # The token is logged shortly before the notebook listens.
        answers[name] = wait_until("the notebook answers", functools.partial(http_status, address))
    if answers != {"without token": 403, "with token": 200}:
        raise StepError(f"the notebook answers {answers}")
    status = asked()
    algorithms = [one["name"] for one in status["algorithms"]]
    reported = f"the server answers only requests with the token; `Client().status()` names `{algorithms[0]}`"
    return reported, {**answers, "telemetry": status["telemetry"]}


def token_of() -> str | None:
    """Return the notebook's token from its log, or None."""
    found = re.search(r"token=(\w+)", said("podman", "logs", container("notebook")))
    return found and found[1]


def http_status(address: str) -> int:
    """Return the status of a server's answer."""
    try:
        with urllib.request.urlopen(address, timeout=120) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def asked() -> Facts:
    """Return the agent's status, asked from the notebook's container."""
    status: Facts = json.loads(inside("notebook", "python", "-c", ASK_STATUS).splitlines()[-1])
    return status


def change() -> tuple[str, Facts]:
    """Other arguments for the agent (`CCP_RUN=... up -d agent`)."""
    said("env", f"CCP_RUN={OTHER_RUN}", *COMPOSE, "up", "--detach", "--no-build", "agent")
    status = wait_until("the agent has the rule", lambda: (now := asked())["rules"] and now)
    algorithms = [one["name"] for one in status["algorithms"]]
    if algorithms != ["cubic", "reno"]:
        raise StepError(f"the agent runs {algorithms}")
    wait_until("all run", running)
    return f"`CCP_RUN='{OTHER_RUN}'`: the agent has both algorithms and the rule", {"rules": status["rules"]}


def prometheus() -> tuple[str, Facts]:
    """Prometheus: the agent as a target."""
    if not scraped('up{job="ccplane"}'):
        raise StepError("Prometheus has no metrics of the agent")
    count = int(scraped('count({__name__=~"ccplane_.+"})'))
    return f"up, {count} series", {"series": count}


def down() -> tuple[str, Facts]:
    """All services stopped and removed (`stop`, `down`)."""
    # The first process of a container ignores signals until it has installed handlers.
    wait_until("a token", token_of)
    logs()
    restarts = {service: state(service)["RestartCount"] for service in SERVICES}
    if any(restarts.values()):
        raise StepError(f"restarted: {restarts}")
    said(*COMPOSE, "stop", "--timeout", "60")
    codes = {service: state(service)["State"]["ExitCode"] for service in SERVICES}
    said(*COMPOSE, "down")
    none_left()
    killed = [f"`{service}`" for service, code in codes.items() if code == KILLED]
    reported = f"{', '.join(killed)} had to be killed" if killed else "each service exited when stopped"
    return f"{reported}; no container is left", {"exit_codes": codes}


def none_left() -> None:
    """Check that no container is left."""
    if left := said("podman", "ps", "--all", "--format", "{{.Names}}"):
        raise StepError(f"left: {left}")


def unload() -> tuple[str, Facts]:
    """Ccplane removed from the kernel (`run --rm agent ccp unload`)."""
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    before = known.read_text().split()
    reported = said(*COMPOSE, "run", "--rm", "--no-deps", "-T", "agent", "ccp", "unload")
    after = known.read_text().split()
    if "ccp" not in before or "ccp" in after or any(one.startswith("ccp.") for one in after):
        raise StepError(f"before {before}, after {after}: {reported}")
    none_left()
    return "no congestion control of ccplane is registered", {"before": before, "after": after}


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    sys.exit(main())
