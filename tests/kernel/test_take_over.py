"""A take-over that fails: whatever keeps the new agent from starting, the old one still steers its flows."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path as FilePath

import pytest

from ccplane.base.errors import LoadError
from ccplane.datapath import ebpf
from experiments.agent_process import AgentProcess, running_agent
from experiments.netlab import Path
from tests.kernel.driving import loaded, wait_until
from tests.kernel.test_upgrade import steered_by
from tests.kernel.upgrading import Server

REFUSED_EXTENSION = """
from pathlib import Path

from ccp_algs import Algorithm


class Extended(Algorithm):
    program = "(def (Report (acked 0))) (when true (:= Report.acked Ack.bytes_acked) (report))"
    extensions = (Path(__file__).with_name("refused.bpf.o"),)

    def on_report(self, report):
        pass
"""


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that another program listens on; the next one is free."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def free_ports(how_many: int) -> list[int]:
    """Return free ports, in a row."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port: int = first.getsockname()[1]
        try:
            for other in range(port, port + how_many):
                socket.create_server(("127.0.0.1", other)).close()
        except OSError:
            continue
        return list(range(port, port + how_many))


def test_the_old_agent_still_steers_when_the_new_one_cannot_start(
    wire: Path, taken_port: int, tmp_path: FilePath
) -> None:
    extended = tmp_path / "extended.py"
    extended.write_text(REFUSED_EXTENSION)
    (tmp_path / "refused.bpf.o").write_bytes(b"no object")
    keys = ["--control-keys", str(tmp_path / "keys")]
    too_late = {
        "metrics.cannot_listen": ["cubic", "--metrics", str(taken_port)],
        "control.cannot_listen": ["cubic", "--control", f"tcp://127.0.0.1:{taken_port}", *keys],
        "bus.port_taken": ["cubic", "--broker", f"embedded:{taken_port}"],
        "bus.no_password_file": ["cubic", "--broker", f"embedded:0?users={tmp_path}/none"],
        "load.extension": [str(extended)],
        "load.register": ["cubic", "--cc-name", "cubic=ccp.taken"],
    }
    with loaded() as elsewhere, ExitStack() as around:
        elsewhere.register("ccp.taken")
        elsewhere.unregister("ccp")
        old = around.enter_context(running_agent("reno"))
        server = around.enter_context(closing(Server(wire.sender)))
        for _ in range(3):
            server.accept(wire.receiver, server.chose)
        with server.talking():
            wait_until(lambda: steered_by() == ["reno/default"] * 3)
            for slug, arguments in too_late.items():
                with pytest.raises(LoadError, match=slug.replace(".", r"\.")):
                    AgentProcess([*arguments, "--take-over"])
                assert old.running
                assert steered_by() == ["reno/default"] * 3, slug


def test_the_new_agent_listens_where_the_old_one_did(tmp_path: FilePath) -> None:
    metrics, control, _, broker = free_ports(4)
    same = [
        *("--metrics", str(metrics), "--broker", f"embedded:{broker}"),
        *("--control", f"tcp://127.0.0.1:{control}", "--control-keys", str(tmp_path)),
    ]
    with running_agent("reno", *same) as old:
        new = AgentProcess(["cubic", "--take-over", *same])
        try:
            assert "another agent took the flows over" in old.stop()
            for port in (metrics, control, control + 1, broker):
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
        finally:
            new.stop()


def test_a_rehearsal_leaves_no_directory_of_pins_where_there_was_none() -> None:
    pin_dir = FilePath("/sys/fs/bpf/ccplane-rehearsed")
    with pytest.raises(LoadError, match="extension"):
        ebpf.rehearse(str(pin_dir), [], [("broken", b"not an object")])
    assert not pin_dir.exists()
