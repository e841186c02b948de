from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.netlab import LabError
from experiments.netlab.emulated import emulated
from experiments.netlab.network_spec import emulator_spec
from experiments.netlab.routes import graph_of
from experiments.netlab.spec import Buffer, Direction, DropTail, GilbertElliott
from experiments.netlab.topologies import dumbbell, point_to_point


def test_a_network_is_written_with_indices_for_names() -> None:
    bottleneck = Direction(
        rate_bytes_per_s=1e6, delay_us=5000, queue=DropTail(ce_threshold_us=1000), buffer=Buffer(bdp=2)
    )
    spec = json.loads(json.dumps(emulator_spec(graph_of(dumbbell(1, bottleneck)), seed=7)))
    assert spec["seed"] == 7
    assert spec["mtu_bytes"] == 1500
    assert spec["nodes"] == [
        {"name": "s1", "addresses": ["10.78.0.1", "fd78::1"], "tun": 0},
        {"name": "r1", "addresses": ["10.78.0.2", "fd78::2"], "tun": 1},
        {"name": "left", "addresses": [], "tun": None},
        {"name": "right", "addresses": [], "tun": None},
    ]
    assert [(link["name"], link["from"], link["to"]) for link in spec["links"]] == [
        ("bottleneck>", 2, 3),
        ("bottleneck<", 3, 2),
        ("access-s1>", 0, 2),
        ("access-s1<", 2, 0),
        ("access-r1>", 3, 1),
        ("access-r1<", 1, 3),
    ]
    assert spec["links"][0]["direction"] == {
        "rate_bytes_per_s": 1e6,
        "delay_us": 5000,
        "queue": {"kind": "drop_tail", "ce_threshold_us": 1000},
        "buffer": {"bytes": 20_000},
    }
    assert spec["routes"] == [[-1, 2, 2, 2], [5, -1, 5, 5], [3, 0, -1, 0], [1, 4, 1, -1]]


def test_a_trace_goes_as_its_times(tmp_path: Path) -> None:
    (tmp_path / "a.trace").write_text("1\n4\n")
    direction = Direction(trace=str(tmp_path / "a.trace"), loss=GilbertElliott(0.1, 0.5))
    first, second = emulator_spec(graph_of(point_to_point(direction, Direction())), seed=1)["links"]
    assert first["direction"]["trace_ms"] == [1, 4]
    assert "trace" not in first["direction"]
    assert "trace_ms" not in second["direction"]


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"pcap": {"link": "x.pcapng"}}, "pcap"),
        ({"sample_interval_us": 0}, "sample_interval_us"),
        ({"samples_path": "/nowhere/links.csv"}, "samples_path"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_built(options: dict[str, object], where: str) -> None:
    with pytest.raises(LabError) as caught, emulated(point_to_point(Direction()), **options):  # type: ignore[arg-type]
        pytest.fail("it was built")
    assert caught.value.where == where
