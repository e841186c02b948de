"""Probes that bcc compiles: their events next to the reports of an agent, the command, the page."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import pandas as pd
import pytest

from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from ccplane.agent.features.probes.timeline import record
from experiments.agent_process import PIN_DIR, ccp, running_agent
from experiments.netlab import IperfRun, Path, bottleneck
from telemetry.bpfcc import BccProbe, why_not
from telemetry.bpfcc.errors import ProbeError
from tests.kernel.driving import Start, wait_until

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"bcc cannot run here: {why_not()}")

ROOT = FilePath(__file__).parents[2]
PAGE = ROOT / "docs/bcc.md"
COMPILES_S = 600
"""How long an emulated processor may compile the kernel's headers [s]."""
KPROBES = FilePath("/sys/kernel/debug/kprobes/list")

SUBMIT = """
struct event { u64 t_us; u32 number; u32 more; };
OUTPUT(events);
int kprobe__tcp_rcv_established(void *ctx)
{
    struct event event = {.t_us = CLOCK, .number = 7};
    events.SUBMITTED;
    return 0;
}
"""
ACKS = """
struct ack {
    u64 t_ns;
    u32 srtt_us;
    u32 inflight_bytes;
    u32 ssthresh_pkts;
    u16 sport;
    u16 dport;
};
BPF_PERF_OUTPUT(acks);

// A segment arrived; its ACK is not processed yet.
TRACEPOINT_PROBE(tcp, tcp_probe)
{
    struct ack ack = {};

    if (args->snd_nxt == args->snd_una)
        return 0; // this socket only receives
    ack.t_ns = bpf_ktime_get_ns();
    ack.srtt_us = args->srtt;
    ack.inflight_bytes = args->snd_nxt - args->snd_una;
    ack.ssthresh_pkts = args->ssthresh;
    ack.sport = args->sport;
    ack.dport = args->dport;
    acks.perf_submit(args, &ack, sizeof(ack));
    return 0;
}

struct retransmit {
    u64 t_ns;
    u16 sport;
    u16 dport;
};
BPF_PERF_OUTPUT(retransmits);

TRACEPOINT_PROBE(tcp, tcp_retransmit_skb)
{
    struct retransmit event = {};

    event.t_ns = bpf_ktime_get_ns();
    event.sport = args->sport;
    event.dport = args->dport;
    retransmits.perf_submit(args, &event, sizeof(event));
    return 0;
}
"""
COUNTS = """
BPF_HASH(by_state, u32, u64);
BPF_PERCPU_ARRAY(in_all, u64, 4);
BPF_HISTOGRAM(sizes);
TRACEPOINT_PROBE(tcp, tcp_probe)
{
    u32 state = 1;
    int at = 2;

    by_state.increment(state);
    in_all.increment(at);
    sizes.increment(bpf_log2l(args->data_len));
    return 0;
}
"""


def submitting(output: str, clock: str = "bpf_ktime_get_ns() / 1000") -> str:
    """Text with an output of this kind."""
    call = {
        "BPF_PERF_OUTPUT": "perf_submit(ctx, &event, sizeof(event))",
        "BPF_RINGBUF_OUTPUT": "ringbuf_output(&event, sizeof(event), 0)",
    }[output]
    declared = "BPF_RINGBUF_OUTPUT(events, 64)" if output == "BPF_RINGBUF_OUTPUT" else f"{output}(events)"
    return SUBMIT.replace("OUTPUT(events)", declared).replace("CLOCK", clock).replace("SUBMITTED", call)


def refusal(text: str, **options: Any) -> ProbeError:
    with pytest.raises(ProbeError) as refused:
        BccProbe(text, name="mine.c", **options)
    return refused.value


def probed() -> str:
    """What kprobes there are in this kernel."""
    return KPROBES.read_text()


def held() -> int:
    """How many events of the kernel this process is attached to: a probe at a tracepoint is in no list."""
    links = [os.readlink(one.path) for one in os.scandir("/proc/self/fd") if os.path.islink(one.path)]
    return links.count("anon_inode:[perf_event]")


@pytest.fixture
def slow() -> Iterator[Path]:
    """A path that an emulated processor fills with ease."""
    with bottleneck(rate_bytes_per_s=2.5e6, buffer_bytes=50_000) as path:
        yield path


@pytest.fixture
def client() -> Iterator[Client]:
    with running_agent("aimd"), Client(control_socket(PIN_DIR)) as made:
        yield made


def sending(start_transfer: Start, path: Path, duration_s: int = 10) -> IperfRun:
    return start_transfer(path.sender, path.receiver, congestion="ccp.aimd", duration_s=duration_s)


def acked(client: Client) -> pd.Series:
    """Bytes that each flow has had acknowledged; a table of no flows has no columns."""
    return client.flows().get("bytes_acked", pd.Series(dtype=int))


def test_the_page_records_and_draws_what_the_kernel_and_the_algorithm_saw(
    slow: Path, start_transfer: Start, client: Client, tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall("```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.setattr("ccplane.connect", client.another)
    names: dict[str, Any] = {"text": ACKS}
    before = held()
    sending(start_transfer, slow, 60)
    exec(compile(code, PAGE, "exec"), names)
    seen = names["seen"]
    flow_id = seen.reports["flow_id"].mode()[0]  # iperf3's control connection is another flow
    reports, events = (table[table["flow_id"] == flow_id] for table in (seen.reports, seen.events))
    acks = events[events["source"] == "acks"]
    retransmits = events[events["source"] == "retransmits"]
    assert seen.dropped_reports == seen.dropped_events == 0
    assert len(acks) > len(reports) > 20
    assert len(retransmits) > 0
    assert reports["lost"].sum() > 0
    # The probe sees the SRTT as an ACK comes in: what a report has, the next ACK finds.
    after = acks["t_us"].searchsorted(reports["t_us"], side="right")
    known = after < len(acks)
    reported = reports["srtt_us"].to_numpy()[known]
    found = acks["srtt_us"].to_numpy()[after[known]]
    assert (reported == found).mean() > 0.99
    drawn = tmp_path / "bcc.png"
    names["figure"].savefig(drawn)
    assert drawn.stat().st_size > 10_000
    assert held() == before


def test_the_command_prints_both_in_order_until_ctrl_c(
    slow: Path, start_transfer: Start, client: Client, tmp_path: FilePath
) -> None:
    file = tmp_path / "mine.c"
    file.write_text(submitting("BPF_PERF_OUTPUT"))
    command = ccp("probe", str(file), "--json", "--pin-dir", PIN_DIR)
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("w") as stdout, err.open("w") as stderr:
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr, start_new_session=True)
    try:
        wait_until(lambda: "attached" in err.read_text() or process.poll() is not None, timeout_s=COMPILES_S)
        sending(start_transfer, slow, 60)
        wait_until(
            lambda: out.read_text().count('"report"') > 10 and '"probe"' in out.read_text(), timeout_s=120.0
        )
        assert "tcp_rcv_established" in probed()
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
    said = err.read_text()
    assert said.startswith("ccp: attached events; Ctrl-C stops")
    assert "Traceback" not in said
    assert "tcp_rcv_established" not in probed()
    rows = [json.loads(one) for one in out.read_text().splitlines()]
    times = [row["t_us"] for row in rows]
    assert times == sorted(times) or "too late to be printed in order" in said
    assert {row["source"] for row in rows if row["stream"] == "probe"} == {"events"}


def test_the_command_ends_after_its_seconds_with_tables_and_histograms(
    slow: Path, start_transfer: Start, client: Client
) -> None:
    text = submitting("BPF_PERF_OUTPUT") + COUNTS
    command = ccp("probe", "-e", text, "--seconds", "8", "--pin-dir", PIN_DIR)
    sending(start_transfer, slow, 2 * COMPILES_S)
    wait_until(lambda: acked(client).max() > 100_000)
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILES_S, check=True)
    lines, *tables = done.stdout.split("\n\n")
    reported = [(float(one.split()[0]), one.split()[1]) for one in lines.splitlines()[1:]]
    assert {source for _, source in reported} == {"events", "report"}
    assert 4 < reported[-1][0] - reported[0][0] < 12
    assert sorted(one.partition(":")[0] for one in tables) == ["by_state", "in_all", "sizes"]
    (sizes,) = (one for one in tables if one.startswith("sizes"))
    assert "distribution" in sizes
    assert "|*" in sizes
    assert "tcp_rcv_established" not in probed()


def test_the_probe_of_the_page_prints_lines_for_people(
    slow: Path, start_transfer: Start, client: Client
) -> None:
    sending(start_transfer, slow, 2 * COMPILES_S)
    wait_until(lambda: acked(client).max() > 100_000)
    flow_id = int(acked(client).idxmax())
    (text,) = re.findall(r"^```c\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    command = ccp("probe", "-e", text, "--flow", str(flow_id), "-n", "300", "--pin-dir", PIN_DIR)
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILES_S, check=True)
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["time", "[s]", "source", "flow", "what"]
    assert len(lines) == 300
    assert {one.split()[2] for one in lines} == {str(flow_id)}
    assert {one.split()[1] for one in lines} == {"retransmits", "report"}


@pytest.mark.parametrize("output", ["BPF_PERF_OUTPUT", "BPF_RINGBUF_OUTPUT"])
def test_outputs_of_both_kinds_are_events(
    output: str, slow: Path, start_transfer: Start, client: Client
) -> None:
    with BccProbe(submitting(output)) as probe:
        sending(start_transfer, slow, 5)
        seen = record(probe, client, 2)
    assert len(seen.events) > 10
    assert set(seen.events["number"]) == {7}
    assert seen.events["t_us"].is_monotonic_increasing
    assert len(seen.reports) > 0


@pytest.mark.parametrize(
    "function", ["RAW_TRACEPOINT_PROBE(tcp_probe)", "KFUNC_PROBE(tcp_rcv_established, void *sk)"]
)
def test_functions_of_other_kinds_attach_by_their_names(
    function: str, slow: Path, start_transfer: Start
) -> None:
    text = submitting("BPF_PERF_OUTPUT").replace("int kprobe__tcp_rcv_established(void *ctx)", function)
    with BccProbe(text) as probe:
        start_transfer(slow.sender, slow.receiver, congestion="cubic", duration_s=2)
        events: list[Any] = []
        wait_until(lambda: events.extend(probe.drain(0.1)) or events)
    assert {one.fields["number"] for one in events} == {7}


def test_events_without_a_time_have_that_of_reading(slow: Path, start_transfer: Start) -> None:
    text = submitting("BPF_PERF_OUTPUT").replace("t_us", "other")
    with BccProbe(text) as probe:
        assert probe.without_clock == ["events"]
        begin_us = time.monotonic_ns() // 1000
        start_transfer(slow.sender, slow.receiver, congestion="cubic", duration_s=2)
        events: list[Any] = []
        wait_until(lambda: events.extend(probe.drain(0.1)) or events)
        assert begin_us <= events[0].t_us <= time.monotonic_ns() // 1000


def test_tables_are_events_as_they_change(slow: Path, start_transfer: Start) -> None:
    before = held()
    with BccProbe(COUNTS, interval_s=0.2) as probe:
        assert held() > before
        assert set(probe.sources) == {"by_state", "in_all", "sizes"}
        probe.drain()
        start_transfer(slow.sender, slow.receiver, congestion="cubic", duration_s=3)
        events: list[Any] = []
        wait_until(lambda: events.extend(probe.drain(0.1)) or len({one.source for one in events}) == 3)
        of_hash = [one.fields for one in events if one.source == "by_state"]
        assert {one["key"] for one in of_hash} == {1}
        assert of_hash[-1]["value"] > 0
        assert {one.fields["key"] for one in events if one.source == "in_all"} == {2}
        assert all(isinstance(one.fields["value"], int) for one in events)
        whole = {table.name: table for table in probe.read_tables()}
        assert [one["key"] for one in whole["by_state"].entries] == [1]
        assert whole["by_state"].entries[0]["value"] >= of_hash[-1]["value"]
        assert sum(one["value"] for one in whole["sizes"].entries) > 0
        # ACKs have no data: bcc counts them in the first of the powers of two.
        assert re.search(r"^ +0 -> 1 +: [1-9]\d* +\|\*+", whole["sizes"].histogram, re.MULTILINE)
        assert whole["in_all"].histogram == ""
    with BccProbe(COUNTS, tables=["sizes"]) as probe:
        assert probe.sources == ["sizes"]
    assert held() == before


@pytest.mark.parametrize(
    ("text", "slug", "said"),
    [
        (
            "int kprobe__tcp_ack(void *ctx)\n{\n    return unheard_of;\n}\n",
            "probe.not_compiled",
            "unheard_of",
        ),
        (
            "BPF_HASH(seen, u32, u64); int kprobe__tcp_ack(void *ctx)"
            "{ u32 key = 1; u64 *found = seen.lookup(&key); return *found; }",
            "probe.refused",
            "map_value_or_null",
        ),
        (submitting("BPF_PERF_OUTPUT").replace("tcp_rcv_est", "tcp_rcv_set"), "probe.not_attached", ""),
        ("BPF_HASH(seen, u32); int nowhere(void *ctx) { return 0; }", "probe.attaches_to_nothing", ""),
        ("int kprobe__tcp_ack(void *ctx) { return 0; }", "probe.nothing_to_show", ""),
        (
            "BPF_PERF_OUTPUT(events); int kprobe__tcp_ack(struct pt_regs *ctx)"
            "{ u64 one = 1; events.perf_submit(ctx, &one, 8); return 0; }",
            "probe.no_fields",
            "",
        ),
        (
            "struct inner { u32 a; }; struct event { struct inner in; }; BPF_PERF_OUTPUT(events);"
            "int kprobe__tcp_ack(struct pt_regs *ctx)"
            "{ struct event one = {}; events.perf_submit(ctx, &one, sizeof(one)); return 0; }",
            "probe.no_fields",
            "struct inner",
        ),
        (
            "BPF_HASH(seen, u32, s8); int kprobe__tcp_ack(void *ctx) { return 0; }",
            "probe.no_fields",
            "bcc does not know",
        ),
    ],
)
def test_what_is_wrong_with_a_text_is_said_and_nothing_stays_attached(
    text: str, slug: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    error = refusal(text)
    assert error.slug == slug
    assert said in error.why
    assert error.where.startswith("mine.c")
    assert error.fix
    assert capfd.readouterr().err == ""
    assert "tcp_ack" not in probed()


def test_the_line_that_does_not_compile_is_named() -> None:
    error = refusal("int kprobe__tcp_ack(void *ctx)\n{\n    return unheard_of;\n}\n")
    assert error.where == "mine.c:3:12"


def test_functions_and_tables_of_like_names_are_offered() -> None:
    wrong = submitting("BPF_PERF_OUTPUT").replace("tcp_rcv_established", "tcp_rcv_establish")
    assert "`tcp_rcv_established`" in refusal(wrong).fix
    error = refusal(COUNTS, tables=["size"])
    assert (error.slug, error.fix) == ("probe.no_table", "did you mean `sizes`?")


def test_a_time_of_another_clock_is_refused(slow: Path, start_transfer: Start) -> None:
    with BccProbe(submitting("BPF_PERF_OUTPUT", "bpf_ktime_get_ns()"), name="mine.c") as probe:
        start_transfer(slow.sender, slow.receiver, congestion="cubic", duration_s=2)
        with pytest.raises(ProbeError) as refused:
            wait_until(lambda: probe.drain(0.1) and False)
    assert refused.value.slug == "probe.clock"
    assert "t_us" in refused.value.why
