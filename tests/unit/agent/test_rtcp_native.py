"""Parameters and records of `ccp rtcp attach`; tests/kernel tests it on sockets."""

from __future__ import annotations

import gzip
import ipaddress
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ccp_algs.rtcp import Options, Progress
from ccplane.agent import cli
from ccplane.agent.features.rtcp.ack_trace import ACK, START, read_ack_trace
from ccplane.agent.features.rtcp.acks import AckRecorder
from ccplane.agent.features.rtcp.settings import options_of
from ccplane.base.errors import CcpError, ParamError, Several

FIELDS = [
    ("t_us", "u8"),
    ("acked_bytes", "u8"),
    ("delivered_pkts", "u4"),
    ("lost_pkts", "u4"),
    ("min_rtt_us", "u4"),
    ("srtt_us", "u4"),
    ("prior_delivered_pkts", "u4"),
    ("in_flight_pkts", "u4"),
    ("starts", "?"),
    ("app_limited", "?"),
    ("saddr", "(16,)u1"),
    ("daddr", "(16,)u1"),
    ("sport", "u2"),
    ("dport", "u2"),
]


def row(
    t_us: int, *, starts: bool = False, dst: str = "::ffff:10.0.0.2", dport: int = 80
) -> tuple[object, ...]:
    ends = (list(ipaddress.IPv6Address(one).packed) for one in ("::ffff:10.0.0.1", dst))
    return (t_us, 2896, 2, 1, 20_000, 21_000, 1, 7, starts, True, *ends, 5000, dport)


def test_parameters_are_read_from_text_and_from_numbers() -> None:
    assert options_of({}) == Options()
    found = options_of({"probe_every_rounds": "25", "loss_ratio": "0.3", "pace_cubic": "false", "kept_s": 60})
    assert found == Options(probe_every_rounds=25, loss_ratio=0.3, pace_cubic=False, kept_s=60.0)


def test_parameters_that_cannot_be_are_refused_by_name() -> None:
    def slug(**values: object) -> str:
        with pytest.raises((ParamError, ParamError, Several)) as caught:
            options_of(values)
        error = caught.value
        return " ".join(one.slug for one in error.errors) if isinstance(error, Several) else error.slug

    assert slug(probe_every_round=25) == "param.unknown"
    assert slug(probe_every_rounds="often") == "param.wrong_type"
    assert slug(loss_ratio=2) == "param.out_of_range"
    assert slug(nothing=1, loss_ratio="much") == "param.unknown param.wrong_type"


def test_each_connection_has_a_file_that_the_detector_reads(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "acks"
    recorder = AckRecorder(directory)
    recorder.take(np.array([row(10, starts=True), row(20), row(15, dst="2001:db8::2")], dtype=FIELDS))
    recorder.take(np.array([row(30)], dtype=FIELDS))
    recorder.close()
    first, other = (
        directory / "10.0.0.1-5000-10.0.0.2-80.csv.gz",
        directory / "10.0.0.1-5000-2001:db8::2-80.csv.gz",
    )
    assert sorted(directory.iterdir()) == [first, other]
    assert list(read_ack_trace(first)) == [
        (kind, Progress(t_us, 2, 1, 20_000)) for kind, t_us in ((START, 10), (ACK, 20), (ACK, 30))
    ]
    header, line = gzip.decompress(other.read_bytes()).decode().splitlines()
    assert dict(zip(header.split(","), line.split(","), strict=True)) == {
        "ev": "A",
        "time_us": "15",
        "acked_bytes": "2896",
        "delivered": "2",
        "lost": "1",
        "min_rtt_us": "20000",
        "app_limited": "1",
        "prior_delivered": "1",
        "srtt_us": "21000",
        "inflight": "7",
    }


def test_a_place_that_cannot_be_written_to_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CcpError) as caught:
        AckRecorder(tmp_path / "file" / "acks")
    assert caught.value.slug == "rtcp.cannot_record"


def test_the_command_reads_parameters_before_it_asks_the_kernel() -> None:
    result = CliRunner().invoke(cli.app, ["rtcp", "attach", "--param", "eta=20"])
    assert result.exit_code == 1
    assert result.stderr.startswith("param.unknown")
