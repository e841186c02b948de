from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments import examples
from experiments.netlab import LabError
from experiments.netlab.host import Belongings, Host
from experiments.traffic import Quic, files, start_traffic
from experiments.traffic.quic import sampled


def server_row(t_us: int, port: int, **changes: Any) -> dict[str, Any]:
    row = {
        "t_us": t_us,
        "port": port,
        "open": True,
        "cwnd_bytes": 20_000,
        "srtt_us": 30_000,
        "lost_pkts": 0,
        "sent_bytes": t_us,
        "mtu_bytes": 1452,
        "steered": True,
    }
    return row | changes


def client_row(t_us: int, port: int, raw: int) -> dict[str, Any]:
    return {"t_us": t_us, "port": port, "open": True, "bytes": raw}


def test_a_sample_has_what_the_client_had_at_that_time() -> None:
    server = [server_row(1_050_000, 7, steered=False), *(server_row(n * 100_000 + 900, 7) for n in (11, 12))]
    client = [
        client_row(1_040_000, 7, 0),
        client_row(1_100_300, 7, 500),
        client_row(1_201_800, 7, 900),  # later than the server's, but in the same tick
        {"start_us": 1_000_000, "end_us": 1_190_000, "first_byte_us": 1, "size_bytes": 900, "port": 7},
    ]
    found = sampled(server, {3: client}, "ccp.cubic", 100_000)
    assert [one.bytes_acked for one in found] == [0, 500, 900]
    assert [one.congestion for one in found] == ["quinn/cubic", "ccp.cubic", "ccp.cubic"]
    assert {one.connection for one in found} == {3}


def test_connections_are_reported_apart_by_the_clients_ports() -> None:
    server = [server_row(100_000, 7), server_row(100_000, 8), server_row(100_000, 9)]
    clients = {0: [client_row(100_000, 8, 80)], 1: [client_row(100_000, 7, 70)], 2: []}
    found = sampled(server, clients, "ccp.cubic", 100_000)
    assert [(one.connection, one.bytes_acked) for one in found] == [(1, 70), (0, 80)]


def test_what_carries_quic_is_named_with_how_to_build_it_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PROGRAM", tmp_path / "files")
    with pytest.raises(LabError) as caught:
        started("quinn/cubic")
    assert caught.value.slug == "lab.no_command"
    assert caught.value.where == str(tmp_path / "files")
    assert examples.build(files.CRATE, files.EXAMPLE) in caught.value.fix


@pytest.mark.parametrize("congestion", ["cubic", "ccp.cubic"])
def test_a_congestion_control_that_none_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, congestion: str
) -> None:
    program = tmp_path / "files"
    program.touch(0o755)
    monkeypatch.setattr(files, "PROGRAM", program)
    with pytest.raises(LabError) as caught:
        started(congestion)
    assert caught.value.slug == "lab.bad_value"
    assert f"`{congestion}` without an agent" in caught.value.message
    assert "quinn/cubic" in caught.value.fix


def started(congestion: str) -> None:
    host = Host("nobody", "none", Belongings())
    start_traffic(Quic((1000,)), host, host, congestion=congestion, duration_s=1.0)
