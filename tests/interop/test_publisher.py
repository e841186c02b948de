"""The process that publishes summaries, with a broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from broker.embedded import EmbeddedBroker
from ccplane.agent.inbox import Inbox
from telemetry.schema import FlowId, IntSummary
from tests.interop.brokers import PATIENCE_S, wait_until

SUMMARY = IntSummary(flow=FlowId(src="fd00::1", src_port=1, dst="fd00::2", dst_port=2), received_pkts=3)


def test_summaries_of_a_pipe_reach_the_inbox(tmp_path: Path) -> None:
    copy = tmp_path / "summaries.jsonl"
    with EmbeddedBroker() as broker:
        inbox = Inbox(broker.options, sender="host-a", kinds=("int_summary", "agent_status"))
        inbox.start()
        wait_until(lambda: inbox.ready, "the subscription")
        reading, writing = os.pipe()
        command = [
            sys.executable,
            "-m",
            "telemetry.inband.publisher",
            "--fd",
            str(reading),
            "--sender",
            "sink",
        ]
        command += ["--broker", str(broker.options), "--copy", str(copy)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=(reading,)) as process:
            os.close(reading)
            assert process.stdout is not None
            assert json.loads(process.stdout.readline()) == {"connected": True}
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(msgspec.json.encode(SUMMARY) + b"\n" + b"nonsense\n")
            out, _ = process.communicate(timeout=PATIENCE_S)
        assert json.loads(out) == {"published": 1, "unreadable": 1, "dropped": 0}
        heard: list[object] = []

        def all_came() -> bool:
            heard.extend(sample.body for sample in inbox.drain())
            return len(heard) == 3

        wait_until(all_came, "birth, summary and farewell")
        assert heard[1] == SUMMARY
        inbox.stop()
    assert copy.read_bytes().splitlines()[1] == b"nonsense"
