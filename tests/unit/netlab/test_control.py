from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.netlab import LabError, emulator
from experiments.netlab.control import Control, EmulatorProcess

DIED = LabError("lab.emulator_died", "the emulator ended")


@pytest.fixture
def pair() -> Iterator[tuple[Control, socket.socket]]:
    own, other = socket.socketpair()
    control = Control(own, lambda: DIED)
    with other:
        yield control, other
    control.close()


def answering(other: socket.socket, *answers: Callable[[dict[str, Any]], bytes | None]) -> threading.Thread:
    def answer() -> None:
        with other.makefile("rb") as lines:
            for one in answers:
                sent = one(json.loads(lines.readline()))
                if sent is None:
                    other.shutdown(socket.SHUT_RDWR)
                    return
                other.sendall(sent)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def ok(value: object) -> Callable[[dict[str, Any]], bytes]:
    return lambda request: json.dumps({"id": request["id"], "ok": value}).encode() + b"\n"


def test_readiness_is_waited_for(pair: tuple[Control, socket.socket]) -> None:
    control, other = pair
    other.sendall(b'{"ready": true}\n')
    control.wait_ready()


def test_a_request_has_an_answer(pair: tuple[Control, socket.socket]) -> None:
    control, other = pair
    seen: list[dict[str, Any]] = []

    def first(request: dict[str, Any]) -> bytes:
        seen.append(request)
        return ok({"a": 1})(request)

    thread = answering(other, first, ok(None))
    assert control.request("set_link", link="l>", direction={"delay_us": 1}) == {"a": 1}
    assert control.request("stop") is None
    thread.join()
    assert seen == [{"id": 1, "do": "set_link", "link": "l>", "direction": {"delay_us": 1}}]


def test_an_answer_may_come_in_pieces_and_be_long(pair: tuple[Control, socket.socket]) -> None:
    control, other = pair
    thread = answering(other, ok("x" * 1_000_000))
    assert control.request("stats") == "x" * 1_000_000
    thread.join()


def test_a_refusal_is_an_error(pair: tuple[Control, socket.socket]) -> None:
    control, other = pair
    thread = answering(other, lambda r: json.dumps({"id": r["id"], "error": "no link `x`"}).encode() + b"\n")
    with pytest.raises(LabError) as caught:
        control.request("set_link", link="x")
    thread.join()
    assert caught.value.slug == "lab.emulator_refused"
    assert caught.value.message == "no link `x`"
    assert "set_link" in caught.value.why


def test_silence_is_an_error_and_the_late_answer_goes_unheard(pair: tuple[Control, socket.socket]) -> None:
    control, other = pair
    with pytest.raises(LabError) as caught:
        control.request("stats", timeout_s=0.01)
    assert caught.value.slug == "lab.timeout"
    assert "`stats`" in caught.value.message
    other.sendall(b'{"id": 1, "ok": "late"}\n{"id": 2, "ok": "in time"}\n')
    assert control.request("stats") == "in time"


def test_death_is_an_error(pair: tuple[Control, socket.socket]) -> None:
    control, other = pair
    thread = answering(other, lambda _: None)
    with pytest.raises(LabError) as caught:
        control.request("stats")
    thread.join()
    assert caught.value is DIED
    other.close()
    with pytest.raises(LabError) as caught:
        control.request("stats")
    assert caught.value is DIED


def test_a_closed_channel_is_an_error(pair: tuple[Control, socket.socket]) -> None:
    control, _ = pair
    control.close()
    with pytest.raises(LabError) as caught:
        control.request("stats")
    assert caught.value.slug == "lab.closed"


class ThisMachine:
    def __init__(self, program: str) -> None:
        self.program = program
        self.command: list[str] = []
        self.env: dict[str, str] = {}

    def popen(self, command: list[str], **options: Any) -> subprocess.Popen[str]:
        self.command, self.env = command, options["env"]
        fds = command[3:]
        return subprocess.Popen(
            [sys.executable, "-c", self.program, *fds], text=True, start_new_session=True, **options
        )


GOOD = """
import json, socket, sys
spec = sys.stdin.read()
control = socket.socket(fileno=int(sys.argv[1]))
control.sendall(b'{"ready": true}\\n')
for line in control.makefile("rb"):
    request = json.loads(line)
    control.sendall(json.dumps({"id": request["id"], "ok": spec}).encode() + b"\\n")
    if request["do"] == "stop":
        break
"""


def start(program: str, spec: bytes = b"{}", *fds: int) -> EmulatorProcess:
    host: Any = ThisMachine(program)
    return EmulatorProcess(host, spec, fds)


def test_the_emulator_reads_the_network_and_stops() -> None:
    files = len(os.listdir("/proc/self/fd"))
    process = start(GOOD, b'{"seed": 1}')
    assert process.running
    assert process.control.request("stats") == '{"seed": 1}'
    assert process.stop() is None
    assert not process.running
    assert process.stop() is None
    assert len(os.listdir("/proc/self/fd")) == files


def test_devices_are_handed_over() -> None:
    reader, writer = os.pipe()
    process = start(
        GOOD.replace("spec = sys.stdin", "import os; os.write(int(sys.argv[2]), b'x'); spec = sys.stdin"),
        b"{}",
        writer,
    )
    os.close(writer)
    process.stop()
    with open(reader, "rb") as file:
        assert file.read() == b"x"  # read to the end: no other process has the write end


def test_an_emulator_that_does_not_start_says_why() -> None:
    with pytest.raises(LabError) as caught:
        start("import sys; sys.exit('emulator.bad_spec: no node 7')")
    assert caught.value.slug == "lab.emulator_died"
    assert "status 1" in caught.value.message
    assert caught.value.why == "emulator.bad_spec: no node 7"


def test_a_killed_emulator_says_by_what() -> None:
    process = start(GOOD)
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(LabError) as caught:
        process.control.request("stats")
    assert caught.value.slug == "lab.emulator_died"
    assert "SIGKILL" in caught.value.message
    error = process.stop()
    assert error is not None
    assert error.slug == "lab.emulator_died"


def test_an_emulator_that_fails_at_its_end_says_why() -> None:
    process = start(GOOD + "sys.exit('cannot write samples')")
    error = process.stop()
    assert error is not None
    assert error.why == "cannot write samples"
    assert process.stop() is None  # already reported


def test_an_emulator_receives_that_the_run_died() -> None:
    process = start(GOOD)
    process.control.close()  # as the kernel does when a process is killed
    assert process._process.wait(10) == 0
    process.stop()


@pytest.mark.kernel_part
def test_the_emulator_is_this_code_wherever_the_user_is(tmp_path: Path) -> None:
    host: Any = ThisMachine(GOOD)
    EmulatorProcess(host, b"{}", ()).stop()
    assert host.command == [sys.executable, "-P", emulator.__file__, host.command[-1]]
    (tmp_path / "telemetry.py").write_text("raise SystemExit('not this one')")
    reported = subprocess.run(
        host.command, env=host.env, cwd=tmp_path, input="{", capture_output=True, text=True
    )
    assert reported.returncode == 1
    assert reported.stderr.startswith("emulator.bad_spec")
