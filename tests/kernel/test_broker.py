"""An agent with a broker of its own: a user of it, and its supervisor after it gave up its rights."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest

from broker.options import BusOptions
from broker.users import set_passwords
from experiments.agent_process import running_agent
from experiments.netlab.process import children_of
from experiments.netlab.sockets import free_port
from telemetry.schema import ReceiverSignal, RegimeDecision
from tests.interop.brokers import fast
from tests.interop.test_brokers import gather, listening, speaking
from tests.kernel.driving import wait_until


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


# After a lost connection paho-mqtt leaves its sockets to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_agent_starts_its_broker_again_without_rights(tmp_path: Path) -> None:
    users, port = tmp_path / "users", free_port()
    set_passwords(users, {"recv": "r", "ben": "b"})
    with users.open("a") as file:  # Mosquitto 2.0 leaves out users whose hash it does not know
        file.write("new:$argon2id$v=19$m=65536,t=3,p=1$c2FsdHNhbHRzYWx0$RdescudvJCsgt3ub\n")
    options = fast(BusOptions(port=port, user="recv", password="r"))
    with running_agent(
        "cubic", "--control", "none", "--sender", "host-a", "--broker", f"embedded:{port}?users={users}"
    ) as agent:
        (broker,) = children_of(children_of(agent.pid)[0])
        assert status_of(broker)["Uid"].split() == ["65534"] * 4
        with (
            listening(options.as_user("ben", "b"), "agent_status", sender="ben") as inbox,
            speaking(options, sender="recv") as bus,
        ):
            assert [sample.sender for sample in gather(inbox, 1)] == ["host-a"]
            os.kill(broker, signal.SIGKILL)
            (online,) = gather(inbox, 1)
            assert (online.sender, online.body.status) == ("host-a", "online")
            assert "the embedded broker exited (signal 9); restarting it" in agent.log()
            (again,) = children_of(children_of(agent.pid)[0])
            held = status_of(again)
            assert (again != broker, held["CapEff"], held["NoNewPrivs"]) == (True, "0" * 16, "1")
            # Nobody speaks in the agent's name.
            bus.publish(ReceiverSignal(peer="10.0.0.1"))
            wait_until(lambda: bus.counters.connection.published == 1)
            with speaking(options, sender="host-a") as false:
                false.publish(RegimeDecision(regime="SHARED", peer="10.0.0.1"))
                wait_until(lambda: false.counters.connection.refused == 1)
    gc.collect()
