"""`ccp bench flows` with few flows: every figure is measured, every flow has its agent."""

from __future__ import annotations

import pytest

from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, running_agent
from experiments.bench import flows
from experiments.bench.bpf_objects import memory_of_maps
from experiments.bench.rounds import Plan
from experiments.netlab import LabError, Path
from tests.kernel.driving import PIN_DIR as TEST_PIN_DIR
from tests.kernel.driving import loaded

COUNT = 300

pytestmark = pytest.mark.usefixtures("any_load")


def test_every_flow_has_its_agent_and_every_figure_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "SECONDS", 1.0)
    metrics = flows.run(Plan(1, 1), count=COUNT).metrics
    assert metrics["flows_with_agent"].value == COUNT
    assert metrics["cpu_ratio"].value > 0
    assert metrics["reports_per_s"].value < COUNT / 10  # nothing is lost: nothing to answer
    slot_bytes = 2500  # 64 report, 64 control, 64 local registers and a mailbox of 64, 8 bytes each: 2048
    assert slot_bytes < metrics["memory_per_flow_bytes"].value < 2 * slot_bytes
    assert metrics["agent_memory_per_flow_bytes"].value < 100_000


def test_memory_grows_with_the_room_for_flows() -> None:
    charged = {}
    for room in (1024, 4096):
        with loaded(max_flows=room):
            charged[room] = memory_of_maps(TEST_PIN_DIR)
    assert set(charged[1024]) >= {"flows", "free_slots", "records", "programs"}
    assert charged[1024]["records"] == charged[4096]["records"]
    grown_bytes = charged[4096]["flows"] - charged[1024]["flows"]
    assert grown_bytes == pytest.approx(3072 * charged[1024]["flows"] / 1024, rel=0.01)


def test_flows_are_gone_with_the_block_and_what_they_sent_is_reported(
    wire: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "SECONDS", 0.5)
    with running_agent("cubic"):
        view = ebpf.observe(PIN_DIR)
        with flows.open_flows(wire, "ccp.cubic", COUNT) as send:
            assert len(view.flows()) == COUNT
            sent_bytes = send()["sent_bytes"]
            assert sent_bytes > 0
            # Without the SYNs, and without what is still on its way.
            assert sum(one.bytes_acked for one in view.all_stats()) <= sent_bytes + COUNT
        assert len(view.flows()) == 0


def test_a_load_that_cannot_be_made_is_an_error(wire: Path) -> None:
    with pytest.raises(LabError) as caught, flows.open_flows(wire, "no_such", COUNT):
        pass
    assert caught.value.slug == "lab.command_failed"
    assert "this kernel has no congestion control `no_such`" in caught.value.why
