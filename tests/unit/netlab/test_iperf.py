from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.netlab import Host, LabError, iperf3
from experiments.netlab.host import Belongings
from experiments.netlab.iperf_result import IperfInterval, parse_intervals, parse_result

DATA = Path(__file__).parent / "data"


def recorded(name: str) -> str:
    return (DATA / f"iperf3-3.12-{name}.json").read_text()


def slug_of(text: str, **arguments: Any) -> str:
    with pytest.raises(LabError) as caught:
        parse_result(text, where="host a: iperf3 -C nope", **arguments)
    assert caught.value.where == "host a: iperf3 -C nope"
    return caught.value.slug


def test_a_sender_knows_everything() -> None:
    result = parse_result(recorded("sender"), where="")
    assert result.congestion == "cubic"
    assert result.sent_bytes == 12_138_000
    assert result.received_bytes == 11_899_524
    assert result.goodput_bit_per_s == pytest.approx(94_343_141, rel=1e-6)
    assert result.goodput_bytes_per_s * 8 == pytest.approx(result.goodput_bit_per_s)
    assert result.duration_s == pytest.approx(1.009042)
    assert result.retransmits_pkts == 5
    assert (result.rtt_min_us, result.rtt_mean_us, result.rtt_max_us) == (5980, 7715, 9285)
    assert result.cwnd_max_bytes == 117_096
    assert result.client_cpu_ratio == pytest.approx(0.0059, rel=0.01)
    assert result.server_cpu_ratio == pytest.approx(0.0976, rel=0.01)
    assert len(result.intervals) == 3
    second = result.intervals[1]
    assert second == IperfInterval(0, 0.100145, 0.200122, 1_285_200, 4, 87_108, 6721)
    assert second.throughput_bytes_per_s == pytest.approx(12.855e6, rel=1e-3)


def test_a_receiving_client_knows_no_window_and_no_rtt() -> None:
    result = parse_result(recorded("reverse"), where="")
    assert result.goodput_bytes_per_s > 0
    assert result.rtt_mean_us is None
    assert result.rtt_min_us is None
    assert result.cwnd_max_bytes is None
    assert {(i.cwnd_bytes, i.rtt_us, i.retransmits_pkts) for i in result.intervals} == {(None, None, None)}


def test_a_transfer_that_was_cut_off_has_intervals() -> None:
    report = json.loads(recorded("sender")) | {"error": "interrupt - the client has terminated", "end": {}}
    assert (
        parse_intervals(json.dumps(report), where="") == parse_result(recorded("sender"), where="").intervals
    )
    assert slug_of(json.dumps(report)) == "lab.iperf3"
    with pytest.raises(LabError) as caught:
        parse_intervals("no JSON", where="host a")
    assert caught.value.slug == "lab.iperf3"


def test_streams_are_numbered_and_summed() -> None:
    result = parse_result(recorded("parallel"), where="")
    assert [interval.stream for interval in result.intervals] == [0, 1, 0, 1, 0, 1]
    streams = [stream["sender"] for stream in json.loads(recorded("parallel"))["end"]["streams"]]
    assert result.sent_bytes == sum(stream["bytes"] for stream in streams)
    assert result.retransmits_pkts == sum(stream["retransmits"] for stream in streams)
    assert result.rtt_mean_us == sum(stream["mean_rtt"] for stream in streams) / 2
    assert result.rtt_max_us == max(stream["max_rtt"] for stream in streams)


def test_an_older_iperf3_without_extras_is_read() -> None:
    report = json.loads(recorded("sender"))
    del report["end"]["sender_tcp_congestion"], report["end"]["cpu_utilization_percent"]
    for key in ("max_rtt", "min_rtt", "mean_rtt", "max_snd_cwnd", "retransmits"):
        del report["end"]["streams"][0]["sender"][key]
    for interval in report["intervals"]:
        del interval["streams"][0]["rtt"], interval["streams"][0]["snd_cwnd"]
    result = parse_result(json.dumps(report), where="")
    assert result.sent_bytes == 12_138_000
    assert result.congestion is None
    assert result.rtt_mean_us is None
    assert result.client_cpu_ratio is None
    assert result.intervals[0].rtt_us is None


def test_omitted_intervals_are_left_out() -> None:
    report = json.loads(recorded("sender"))
    report["intervals"][0]["streams"][0]["omitted"] = True
    assert len(parse_result(json.dumps(report), where="").intervals) == 2


def test_an_empty_interval_has_no_throughput() -> None:
    assert IperfInterval(0, 1.0, 1.0, 0, None, None, None).throughput_bytes_per_s == 0.0


def test_errors_of_iperf3_are_own() -> None:
    assert slug_of('{"end": {}, "error": "unable to connect to server: Connection refused"}') == "lab.iperf3"
    assert slug_of('{"start": {}, "intervals": []}') == "lab.iperf3"
    assert slug_of("", complaint="iperf3: parameter error") == "lab.iperf3"


def test_an_unknown_congestion_control_is_named() -> None:
    message = "unable to set TCP_CONGESTION: Supplied congestion control algorithm not supported on this host"
    with pytest.raises(LabError) as caught:
        parse_result(json.dumps({"error": message}), where="host a: iperf3 -c x -C nope -t 1")
    assert caught.value.slug == "lab.no_congestion_control"
    assert "`nope`" in caught.value.message


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"duration_s": 1, "total_bytes": 1},
        {"duration_s": 0},
        {"duration_s": 1.5},
        {"total_bytes": 9, "parallel": 0},
    ],
)
def test_transfers_that_cannot_be_are_refused_before_anything_starts(options: dict[str, Any]) -> None:
    host = Host("a", "no-such-namespace", Belongings())
    with pytest.raises(LabError) as caught:
        iperf3(host, host, congestion=None, **options)
    assert caught.value.slug == "lab.bad_value"
