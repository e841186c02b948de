"""Verdicts that outlive whoever came to them: the table of clients of one start, in the next."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ccp_algs.rtcp import Options
from ccplane.agent.features.rtcp import native
from ccplane.agent.features.rtcp.attached import MAX_CLIENTS, Attachment
from ccplane.agent.features.rtcp.kept import Kept
from ccplane.agent.features.rtcp.rules import parse_bound_rule
from ccplane.agent.features.rtcp.tables import KEPT_IN, Clients, known_tables
from ccplane.base.errors import CcpError
from experiments.agent_process import PIN_DIR, AgentProcess, ccp, running_agent
from experiments.netlab.emulated import EmulatedNetwork
from experiments.netlab.sockets import congestion_of, set_congestion
from tests.kernel.bpf_maps import opened, pinned_again
from tests.kernel.driving import wait_until
from tests.kernel.peers import pacing_limit_of
from tests.kernel.test_rtcp_native import POLICED, RATE_BYTES_PER_S, policed, sending, states, until

__all__ = ["POLICED", "policed"]

CLIENTS, LAYOUT = "rtcp_clients", "rtcp_layout"
MANY = 1_000
HAS_LINKS = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 4)
"""Before, who is killed leaves the names registered."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder of the BPF file system, as `ccp rtcp attach` has one."""
    place = Path(f"/sys/fs/bpf/ccplane-rtcp-test-{os.getpid()}")
    yield place
    native.forget(place)


@contextlib.contextmanager
def attached(folder: Path, max_clients: int = MAX_CLIENTS, rules: Sequence[str] = ()) -> Iterator[Attachment]:
    parsed = [parse_bound_rule(rule) for rule in rules]
    attachment = Attachment(Options(), max_clients=max_clients, rules=parsed, keep_in=str(folder))
    try:
        yield attachment
    finally:
        attachment.close()


def kept_table(folder: Path) -> Clients:
    return next(table for table in known_tables(kept_in=str(folder)) if table.by != "agent")


def judged(net: EmulatedNetwork, folder: Path, max_clients: int = MAX_CLIENTS) -> dict[str, object]:
    """Have a client limited, end, and return what is known of it then."""
    with attached(folder, max_clients) as attachment:
        assert attachment.kept == Kept("nothing", 0)
        with sending(net, "rtcp_cubic"):
            until(attachment, lambda reported: states(reported).count("capped") >= 2)
    (client,) = kept_table(folder).clients or ()
    assert client["state"] != "unlimited"
    return client


def is_bounded_at_once(net: EmulatedNetwork, attachment: Attachment) -> None:
    """Have a flow that is held to the rate before it can have lost what finding the rate takes."""
    with sending(net, "rtcp_cubic") as sock:
        until(attachment, lambda _: pacing_limit_of(sock) < 2 * RATE_BYTES_PER_S)


def test_the_next_start_goes_on_with_the_table(policed: EmulatedNetwork, folder: Path) -> None:
    before = judged(policed, folder)
    with attached(folder) as attachment:
        assert attachment.kept == Kept("table", 1)
        is_bounded_at_once(policed, attachment)
        (after,) = kept_table(folder).clients or ()
    assert after["client"] == before["client"]
    assert after["rate_bytes_per_s"] == pytest.approx(before["rate_bytes_per_s"], rel=0.1)


def test_a_connection_that_outlives_a_start_counts_in_the_next(
    policed: EmulatedNetwork, folder: Path
) -> None:
    with contextlib.ExitStack() as flow:
        with attached(folder) as attachment:
            flow.enter_context(sending(policed, "rtcp_cubic"))
            until(attachment, lambda reported: "capped" in states(reported))
        with attached(folder) as attachment, sending(policed, "rtcp_cubic"):
            until(attachment, lambda _: (kept_table(folder).clients or [{}])[0]["open_flows"] == 2)
            flow.close()
            until(attachment, lambda _: (kept_table(folder).clients or [{}])[0]["open_flows"] == 1)


def test_a_table_of_another_size_gets_the_verdicts(policed: EmulatedNetwork, folder: Path) -> None:
    before = judged(policed, folder)
    with attached(folder, max_clients=100) as attachment:
        assert attachment.kept == Kept("verdicts", 1)
        table = kept_table(folder)
        (carried,) = table.clients or ()
        assert (table.max_clients, carried["state"], carried["open_flows"]) == (100, "limited", 0)
        for name in ("client", "netns", "netns_cookie", "bucket_bytes", "rate_bytes_per_s"):
            assert carried[name] == before[name]
        assert carried["tokens_bytes"] >= before["tokens_bytes"]
        is_bounded_at_once(policed, attachment)


def test_a_thousand_verdicts_of_another_version_are_kept(policed: EmulatedNetwork, folder: Path) -> None:
    """Its clients begin with a word that we do not know, and it says so."""
    before = judged(policed, folder)
    with opened(folder / CLIENTS) as table, opened(folder / LAYOUT) as reported:
        ((key, value),) = table.items()
        text = reported[bytes(4)].rstrip(b"\0").decode()
    lines = [line.split(" ") for line in text.splitlines()]
    lines[0] = ["0123456789abcdef", lines[0][1], str(len(value) + 8)]
    for line in lines[1:]:
        if line[0] == "value":
            line[2] = str(int(line[2]) + 8)
    cookie = int.from_bytes(key[:8], "little")
    with pinned_again(folder / CLIENTS, len(key), len(value) + 8, MAX_CLIENTS) as table:
        for n in range(MANY):
            table[(cookie + n).to_bytes(8, "little") + key[8:]] = bytes(8) + value
    with opened(folder / LAYOUT) as reported:
        reported[bytes(4)] = "\n".join(map(" ".join, lines)).encode().ljust(reported.value_size, b"\0")
    seen = kept_table(folder).clients or []
    assert {one["rate_bytes_per_s"] for one in seen} == {before["rate_bytes_per_s"]}
    with attached(folder) as attachment:
        assert attachment.kept == Kept("verdicts", MANY)
        clients = kept_table(folder).clients or []
        assert {one["netns_cookie"] for one in clients} == {cookie + n for n in range(MANY)}
        is_bounded_at_once(policed, attachment)
    with attached(folder, max_clients=10) as attachment:
        assert attachment.kept == Kept("lost", MANY - 10)
        assert "is too small" in attachment.kept.sentence


def test_what_a_listener_accepts_later_has_the_programs_of_the_next_start(
    policed: EmulatedNetwork, folder: Path
) -> None:
    """As nginx has it: its listening sockets are older than a `ccp rtcp attach` that was upgraded."""
    sender, receiver = policed.hosts["sender"], policed.hosts["receiver"]
    with contextlib.ExitStack() as around:
        listener = around.enter_context(sender.tcp_socket())

        def accepted() -> str:
            near = around.enter_context(receiver.tcp_socket())
            near.connect(listener.getsockname())
            return congestion_of(around.enter_context(listener.accept()[0]))

        def known(folder: Path) -> int:
            (client,) = kept_table(folder).clients or ()
            return int(client["open_flows"])

        with attached(folder):
            set_congestion(listener, "rtcp_cubic")
            listener.bind((sender.ipv4, 0))
            listener.listen()
            assert (accepted(), known(folder)) == ("rtcp_cubic", 1)
        assert (accepted(), known(folder)) == ("rtcp_cubic", 2), "nobody is attached: those there go on"
        with attached(folder, max_clients=100):
            assert (accepted(), known(folder)) == ("rtcp_cubic", 1), "in the new table"
        with attached(folder, rules=("sport=1 -> limit",)):
            assert accepted() == "rtcp_cubic", "it goes on at its first ACK"
            near = around.enter_context(receiver.tcp_socket())
            near.connect(listener.getsockname())
            far = around.enter_context(listener.accept()[0])
            far.sendall(b"x")
            assert near.recv(1) == b"x"
            wait_until(lambda: congestion_of(far) == "cubic")


def test_a_table_that_says_nothing_of_itself_is_not_taken(policed: EmulatedNetwork, folder: Path) -> None:
    judged(policed, folder)
    (folder / LAYOUT).unlink()
    with attached(folder) as attachment:
        assert attachment.kept == Kept("lost", 1)
        assert "another version" in attachment.kept.sentence
        assert kept_table(folder).clients == []


def test_the_command_keeps_its_table_also_when_it_is_killed(policed: EmulatedNetwork) -> None:
    command = ccp("rtcp", "attach", "--json")
    if Path(KEPT_IN).exists():
        pytest.fail(f"{KEPT_IN} is there: `ccp unload` forgets it")
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["kept"] == "nothing"
            with sending(policed, "rtcp_cubic"):
                assert json.loads(process.stdout.readline())["state"] in ("limited", "capped")
            process.send_signal(signal.SIGKILL if HAS_LINKS else signal.SIGTERM)
        wait_for_the_names_to_go()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
        assert (ready["kept"], ready["kept_clients"]) == ("table", 1)
        shown = subprocess.run(ccp("rtcp", "show", "--json"), capture_output=True, check=True)
        (table,) = (one for one in json.loads(shown.stdout) if one["by"] == "attach")
        (client,) = table["clients"]
        assert client["client"] == policed.hosts["receiver"].ipv4
        said = subprocess.run(ccp("unload"), capture_output=True, text=True, check=True).stdout
        assert "the table of clients' rate limits" in said
        assert not Path(KEPT_IN).exists()
    finally:
        native.forget(KEPT_IN)


def wait_for_the_names_to_go() -> None:
    """Links of a killed process go a moment after it."""
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    give_up_s = time.monotonic() + 20
    while "rtcp_cubic" in available.read_text():
        assert time.monotonic() < give_up_s
        time.sleep(0.05)


def test_who_cannot_keep_it_says_so(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with attached(tmp_path) as attachment:
        assert attachment.kept == Kept("nothing", 0)
    assert "rtcp.not_kept" in caplog.text
    assert "--no-keep" in caplog.text


def test_nothing_changes_where_the_names_are_taken(policed: EmulatedNetwork, folder: Path) -> None:
    judged(policed, folder)
    with attached(folder), pytest.raises(CcpError) as caught:
        Attachment(Options(), max_clients=100, keep_in=str(folder))
    assert caught.value.slug == "rtcp.name_taken"
    with attached(folder) as attachment:
        assert attachment.kept == Kept("table", 1)


def test_an_agent_of_another_size_has_the_verdicts_of_the_one_before(policed: EmulatedNetwork) -> None:
    def known() -> Clients:
        return next(table for table in known_tables(PIN_DIR) if table.by == "agent")

    with running_agent("r_tcp_cubic", "--max-flows", "1000") as first:
        with sending(policed, "ccp.r_tcp_cubic"):
            wait_until(lambda: [one["state"] for one in known().clients or ()] not in ([], ["unlimited"]))
        (before,) = known().clients or ()
        first.stop()
        second = AgentProcess(["r_tcp_cubic", "--max-flows", "2000", "--verbose"])
        try:
            table = known()
            (after,) = table.clients or ()
        finally:
            second.stop()
    assert table.max_clients == 2000
    assert "the verdicts on 1 clients" in second.log()
    for name in ("client", "netns_cookie", "bucket_bytes", "rate_bytes_per_s"):
        assert after[name] == before[name]
    assert after["state"] != "unlimited"
