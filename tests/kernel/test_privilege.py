"""What a running agent may still do, what its children may, and what others can do to it."""

from __future__ import annotations

import json
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccplane.agent.runfile import RUN_DIR
from ccplane.base.errors import LoadError
from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, AgentProcess, ccp, running_agent
from experiments.netlab import Path as NetworkPath
from experiments.netlab import iperf3
from tests.kernel.driving import wait_until
from tests.tasks import read_of_tasks

ASKS = """
import json, os, subprocess
from ccp_algs.reno import Reno

WHOSE = "/bin/sh -c 'grep -e ^Cap -e ^NoNewPrivs -e ^Uid /proc/self/status'"


class Asking(Reno):
    name = "asking"

    def on_create(self, info):
        super().on_create(info)
        forked, reported = os.pipe()
        if os.fork() == 0:
            os.write(reported, open("/proc/self/status").read().encode())
            os._exit(0)
        os.wait()
        seen = {
            "forked": os.read(forked, 65536).decode(),
            "executed": subprocess.run(WHOSE, shell=True, capture_output=True, text=True).stdout,
        }
        with open("FILE", "w") as file:
            json.dump(seen, file)
"""

HOLDS = """
import fcntl, glob, os, sys
held = []
for place in sys.argv[1:]:
    for path in [place, *glob.glob(place + "/**", recursive=True)]:
        try:
            held.append(os.open(path, os.O_RDONLY))
            fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
print("done", flush=True)
sys.stdin.read()
"""
"""Locks all that it may open, and waits."""

KEPT = {"CapEff": "000000c000001000", "CapPrm": "000000c000001000"}
"""CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN."""


def status_of(text: str) -> dict[str, str]:
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return {name: fields[name] for name in fields if name.startswith("Cap") or name in ("NoNewPrivs", "Uid")}


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that others may enter, as they may not enter those of pytest's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


USER = "games"
"""A user of every Debian that owns nothing."""


@pytest.mark.parametrize("user", [None, USER])
def test_children_of_an_algorithm_have_no_capability_and_get_none(
    wire: NetworkPath, readable: Path, user: str | None
) -> None:
    file = readable / "asking.py"
    folder = readable / "seen"
    folder.mkdir()
    folder.chmod(0o777)
    seen = folder / "seen.json"
    file.write_text(ASKS.replace("FILE", str(seen)))
    uid = 0 if user is None else pwd.getpwnam(user).pw_uid
    with running_agent(str(file), *(() if user is None else ("--user", user))) as agent:
        iperf3(wire.sender, wire.receiver, congestion="ccp", duration_s=1)
        wait_until(seen.exists)
        reported = {how: status_of(text) for how, text in json.loads(seen.read_text()).items()}
        none = "0" * 16
        for how in ("forked", "executed"):
            assert {reported[how][f"Cap{one}"] for one in ("Inh", "Prm", "Eff", "Amb")} == {none}, how
            assert reported[how]["NoNewPrivs"] == "1"
            assert reported[how]["Uid"].split() == 4 * [str(uid)]
        assert reported["executed"]["CapBnd"] == none
        threads = {
            thread_id: status_of(text) for thread_id, text in read_of_tasks(agent.pid, "status").items()
        }
        for one in threads.values():
            assert one["CapEff"] in (none, KEPT["CapEff"])
            assert one["CapPrm"] in (none, KEPT["CapPrm"])
            assert (one["CapBnd"], one["NoNewPrivs"]) == (none, "1")
            assert one["Uid"].split() == 4 * [str(uid)]


def test_before_an_algorithm_is_tried_nothing_is_left_to_inherit(tmp_path: Path) -> None:
    given = ["setpriv", "--inh-caps=+bpf,+net_admin", "--ambient-caps=+bpf,+net_admin"]  # as systemd does
    settles = (
        "import subprocess, sys; from pathlib import Path; from ccplane.agent.user import settle;"
        "settle(None, sys.argv[1], Path(sys.argv[2])); subprocess.run(['cat', '/proc/self/status'])"
    )
    command = [*given, sys.executable, "-c", settles, str(tmp_path / "pins"), str(tmp_path / "run")]
    reported = status_of(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert {reported[name] for name in ("CapInh", "CapAmb")} == {"0" * 16}


def test_agents_of_different_users_follow_each_other(wire: NetworkPath, readable: Path) -> None:
    file = readable / "mine.py"
    file.write_text("from ccp_algs.reno import Reno\n\nclass Mine(Reno):\n    name = 'mine'\n")
    for options in (["--user", USER], [], ["--user", USER]):
        agent = AgentProcess([str(file), *options])
        try:
            iperf3(wire.sender, wire.receiver, congestion="ccp", duration_s=1)
            done = subprocess.run(ccp("load", "--pin-dir", PIN_DIR), capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        finally:
            last = agent.stop()
        assert "2 flows" in last
        assert agent.log() == ""
    ebpf.unload(PIN_DIR)


def test_an_agent_becomes_only_a_user_that_exists_and_that_it_may() -> None:
    for options, enter, slug in (
        (["--user", "nobody-like-that"], [], "user.unknown"),
        (
            ["--user", USER],
            ["setpriv", "--bounding-set=-setuid"],
            "user.not_permitted",
        ),
    ):
        with pytest.raises(LoadError) as caught:
            AgentProcess(["reno", *options], enter=enter)
        assert slug in caught.value.why


def test_another_user_cannot_keep_an_agent_from_starting() -> None:
    AgentProcess(["reno"]).kill()  # leaves all that an agent may leave
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable]
    holder = subprocess.Popen(
        [*command, "-c", HOLDS, str(RUN_DIR), PIN_DIR], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"done\n"
        with running_agent("reno"):
            pass
    finally:
        holder.communicate()


def test_unload_leaves_a_running_agent_its_maps() -> None:
    with running_agent("reno") as agent:
        with pytest.raises(LoadError) as caught:
            ebpf.unload(PIN_DIR)
        assert caught.value.slug == "load.already_running"
        assert f"pid {agent.pid}" in caught.value.message
        assert len(ebpf.observe(PIN_DIR).counters()) > 0


def test_two_agents_that_share_pins_but_not_run_files_are_one_too_many() -> None:
    """As two containers do that share /sys/fs/bpf."""
    with running_agent("reno"):
        hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "-"]
        with pytest.raises(LoadError) as caught, running_agent("reno", enter=hidden):
            pass
        assert "load.already_running" in caught.value.why
