from __future__ import annotations

import msgspec
import numpy as np
import pytest

from experiments.traffic import (
    Dash,
    FlowSockets,
    Http,
    Iperf3,
    OnOff,
    Quic,
    Rtp,
    Traffic,
    TrafficResult,
)
from experiments.traffic.steps import steps


def read(text: str) -> Traffic:
    return msgspec.json.decode(text, type=Traffic)


@pytest.mark.parametrize(
    "traffic",
    [
        Iperf3(),
        Iperf3(total_bytes=10_000, parallel=4, rate_bytes_per_s=1e6),
        Http(objects=(1, 2), gaps_s=(0.5, 0.0), repeat=3, connections=2),
        Quic(objects=(1, 2), gaps_s=(0.5, 0.0), repeat=3, connections=2),
        OnOff(on_s=0.5, off_s=1.5, distribution="fixed", rate_bytes_per_s=1e6),
        Dash(abr="bola", buffer_s=12.0, segments=3),
        Rtp(frames_per_s=25.0, frame_bytes=10_000, playout_ms=100, report_s=0.5),
    ],
)
def test_what_is_written_is_read_again(traffic: Traffic) -> None:
    assert read(msgspec.json.encode(traffic).decode()) == traffic


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"kind": "iperf3", "parallel": 0}', "$.parallel"),
        ('{"kind": "iperf3", "parallel": 129}', "$.parallel"),
        ('{"kind": "iperf3", "total_bytes": 0}', "$.total_bytes"),
        ('{"kind": "iperf3", "duration_s": 1}', "duration_s"),
        ('{"kind": "http", "objects": []}', "$.objects"),
        ('{"kind": "http", "objects": [5, 0]}', "$.objects[1]"),
        ('{"kind": "http", "objects": [5], "gaps_s": [-1]}', "$.gaps_s[0]"),
        ('{"kind": "quic", "objects": []}', "$.objects"),
        ('{"kind": "quic", "objects": [5], "persistent": false}', "persistent"),
        ('{"kind": "on_off", "on_s": 1}', "off_s"),
        ('{"kind": "on_off", "on_s": 0, "off_s": 1}', "$.on_s"),
        ('{"kind": "on_off", "on_s": 1, "off_s": 1, "distribution": "pareto"}', "$.distribution"),
        ('{"kind": "dash", "abr": "pensieve"}', "$.abr"),
        ('{"kind": "dash", "segments": 13}', "$.segments"),
        ('{"kind": "rtp", "frame_bytes": 11}', "$.frame_bytes"),
        ('{"kind": "rtp", "frames_per_s": 0}', "$.frames_per_s"),
        ('{"kind": "ftp"}', "$.kind"),
    ],
)
def test_an_error_names_the_field(text: str, path: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        read(text)
    assert path in str(caught.value)


def test_gaps_lie_between_downloads_and_start_again() -> None:
    assert steps(Http(objects=(10, 20, 30))) == [10, 20, 30]
    assert steps(Http(objects=(10, 20), gaps_s=(0.5, 2), repeat=2)) == [10, 0.5, 20, 2.0, 10, 0.5, 20]
    assert steps(Http(objects=(10, 20, 30), gaps_s=(0, 1.0))) == [10, 20, 1.0, 30]
    assert steps(Http(objects=(10,), gaps_s=(9.0,))) == [10]
    assert steps(Quic(objects=(10, 20), gaps_s=(0.5,))) == [10, 0.5, 20]


def test_a_gap_is_reported_from_a_size_by_its_type() -> None:
    found = steps(Http(objects=(10, 20), gaps_s=(2,)))
    assert [type(step) for step in found] == [int, float, int]


def test_sockets_are_reported_apart_by_namespace_and_ports() -> None:
    sockets = FlowSockets(netns=7, sports=(5201, 5203), dports=(80, 80))
    assert sockets.has(7, 5202, 80)
    assert not sockets.has(8, 5202, 80)
    assert not sockets.has(7, 5204, 80)
    assert not sockets.has(7, 5202, 81)
    assert FlowSockets(netns=7).has(7, 1, 2)


def test_sockets_are_reported_apart_in_columns_of_a_trace() -> None:
    sockets = FlowSockets(netns=7, sports=(5201, 5203))
    netns = np.array([7, 7, 8, 7], np.uint32)
    sport = np.array([5200, 5201, 5202, 5203], np.uint16)
    assert list(sockets.has(netns, sport, np.zeros(4, np.uint16))) == [False, True, False, True]


def test_goodput_is_none_where_the_bytes_are_not_known() -> None:
    assert TrafficResult(3_000, 1.5, complete=True).goodput_bytes_per_s == 2_000
    assert TrafficResult(None, 1.5, complete=False).goodput_bytes_per_s is None
    assert TrafficResult(0, 0.0, complete=False).goodput_bytes_per_s is None
