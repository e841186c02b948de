"""`ccp rtcp detect` on files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ccplane.agent import cli
from tests.unit.ccp_algs.rtcp import network
from tests.unit.ccp_algs.rtcp.network import MBIT, MSS

HEADER = "ev,time_us,acked_bytes,delivered,lost,min_rtt_us,app_limited,prior_delivered,srtt_us,inflight"
FIELDS = ["detected", "detected_at_us", "undetected_at_us", "bucket_bytes", "rate_bytes_per_s"]


def detect(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, ["rtcp", "detect", *(str(argument) for argument in arguments)])


def reported(*arguments: object) -> Any:
    result = detect(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def rows(acks: list[network.Ack]) -> str:
    lines = [HEADER]
    first_us = acks[0].time_us
    for kind, now in network.events([one._replace(time_us=one.time_us - first_us) for one in acks]):
        lines.append(
            f"{kind},{now.time_us + 2**32},{now.delivered_pkts * MSS},{now.delivered_pkts},{now.lost_pkts},"
            f"{now.min_rtt_us},0,0,{now.min_rtt_us},0"
        )
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def limited() -> str:
    """Two objects through 1 Mbit/s with 220 KB: the second is also limited, after about 30 packets."""
    path = network.path(MBIT, 220_000, rtt_s=0.02)
    return rows(network.recorded(path, "cubic", 40, (1.2e6, 1.2e6), 1.0))


def test_json_has_the_flow_and_its_transfers(limited: str, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(limited)
    verdict = reported(tmp_path / "trace.csv")
    assert list(verdict) == ["triggered_at_us", *FIELDS, "transfers"]
    first, second = verdict["transfers"]
    assert list(first) == ["started_at_us", "triggered_at_us", *FIELDS]
    assert verdict["detected"] is True
    assert verdict["undetected_at_us"] is None
    assert verdict["triggered_at_us"] == first["triggered_at_us"]
    assert verdict["detected_at_us"] == first["detected_at_us"]
    assert 2**32 == first["started_at_us"] < first["triggered_at_us"] < first["detected_at_us"]
    assert verdict["rate_bytes_per_s"] == pytest.approx(MBIT, rel=0.05)
    assert verdict["bucket_bytes"] == pytest.approx(220_000, rel=0.1)
    assert second["started_at_us"] > first["detected_at_us"]


def test_compressed_traces_and_columns_in_any_order_say_the_same(limited: str, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(limited)
    (tmp_path / "trace.csv.gz").write_bytes(gzip.compress(limited.encode()))
    turned = "\n".join(",".join(reversed(line.split(","))) for line in limited.splitlines())
    (tmp_path / "turned.csv").write_text(turned)
    verdict = reported(tmp_path / "trace.csv")
    assert reported(tmp_path / "trace.csv.gz") == verdict
    assert reported(tmp_path / "turned.csv") == verdict


def test_what_has_not_happened_is_null(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(rows(network.recorded(network.path(link=2 * MBIT), "cubic", 2)))
    verdict = reported(tmp_path / "trace.csv")
    nothing = {"triggered_at_us": None, **dict.fromkeys(FIELDS), "detected": False}
    assert verdict == nothing | {"transfers": [{"started_at_us": 2**32, **nothing}]}


def test_a_trace_without_rows_has_no_transfers(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(HEADER + "\n")
    assert reported(tmp_path / "trace.csv")["transfers"] == []


def test_the_table_has_a_line_a_transfer_and_one_for_the_flow(limited: str, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(limited)
    lines = detect(tmp_path / "trace.csv").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["transfer", "1", "2", "flow"]
    assert lines[-1].split()[3] == "-"
    assert float(lines[-1].split()[-1]) == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("time_us,lost\n", "ev, delivered, min_rtt_us"),
        ("", "the header line names no columns"),
        (HEADER + "\nS,0,0,0,0,,1,0,0,0\nA,5,0,1,0,,0,0,0,0\n", "line 3"),
        (HEADER + "\nA,x,0,0,0,0,0,0,0,0\n", "line 2"),
        (HEADER + "\nA,5\n", "line 2"),
        (HEADER + "\nR,5,0,0,0,0,0,0,0,0\n", "ev is `R`"),
        (HEADER + "\nA,5,0,0,0,9,0,0,0,0\nA,4,0,0,0,9,0,0,0,0\n", "goes backwards from 5"),
    ],
)
def test_rows_that_cannot_be_are_refused_with_their_line(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(text)
    result = detect(tmp_path / "trace.csv")
    assert result.exit_code == 1
    assert "trace.bad_row" in result.stderr
    assert says in result.stderr


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"x" * 10**5, mtime=0)[:60], None])
def test_files_that_cannot_be_read_are_refused(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "trace.csv.gz"
    if content is not None:
        file.write_bytes(content)
    result = detect(file)
    assert result.exit_code == 1
    assert "trace.not_readable" in result.stderr
    assert str(file) in result.stderr
