"""Records of packets: CSV to Parquet, and joined with the trace of the sender's window."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from telemetry.inband.commands import app
from telemetry.inband.errors import InbandError
from telemetry.inband.records import COLUMNS, TRACED, join_windows, read_csv, write_parquet

HEADER = ",".join(COLUMNS)
FULL = (
    "2000,fd00::1,fd00::2,4000,5201,tcp,18446744073709551615,1500,1000,14480,1,2,0,1,7,63,1,2,"
    "1700000000001000,500,3,4,97,8333,2,5,2500000,6,4,-61.5,33.25,8125000,7"
)
BARE = "4000,fd00::1,fd00::2,4000,5201,tcp,,1500,,,0,0,0,,,,,,,,,,,,,,,,,,,,"


def written(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "records.csv"
    file.write_text("\n".join([HEADER, *lines, ""]))
    return file


def test_the_columns_are_those_of_the_sink() -> None:
    source = Path(__file__).parents[4] / "native/ccp-int/src/sink/record.rs"
    header = re.search(r'HEADER: &str = "(.*?)\\n";', source.read_text(), re.DOTALL)
    assert header is not None
    assert re.sub(r"\\\s+", "", header[1]) == HEADER


def test_what_is_missing_is_null_and_numbers_are_exact(tmp_path: Path) -> None:
    frame = read_csv(written(tmp_path, FULL, BARE))
    assert list(frame.columns) == list(COLUMNS)
    assert frame["sequence"][0] == 2**64 - 1
    assert frame["rssi_dbm"][0] == -61.5
    assert frame["queue_depth"].tolist() == [3, pd.NA]
    assert frame.notna().sum(axis=1).tolist() == [33, 10]


def test_a_csv_file_becomes_a_parquet_file(tmp_path: Path) -> None:
    file, out = written(tmp_path, FULL, BARE), tmp_path / "records.parquet"
    result = CliRunner().invoke(app, ["parquet", str(file)])
    assert result.exit_code == 0, result.output
    again = pd.read_parquet(out, dtype_backend="numpy_nullable")
    pd.testing.assert_frame_equal(again, read_csv(file).convert_dtypes(), check_dtype=False)
    assert write_parquet(written(tmp_path), out) == 0
    assert len(pd.read_parquet(out)) == 0


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", f"{HEADER}\nx{FULL}\n", f"{HEADER}\n1,2\n"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.csv"
    file.write_text(text)
    with pytest.raises(InbandError) as caught:
        write_parquet(file, tmp_path / "out.parquet")
    assert (caught.value.slug, caught.value.where) == ("int.bad_records", str(file))
    result = CliRunner().invoke(app, ["parquet", str(file)])
    assert result.exit_code == 1


TRACE = np.dtype(
    [("t_us", "u8"), ("sport", "u2"), ("dport", "u2"), ("saddr", "u1", 16), ("daddr", "u1", 16)]
    + [(name, "u8") for name in TRACED]
)


def traced(*rows: tuple[int, str, int, str, int, int], ssthresh_bytes: int = 0) -> np.ndarray:
    def octets(address: str) -> np.ndarray:
        known = ipaddress.ip_address(address)
        wide = known if known.version == 6 else ipaddress.IPv6Address(f"::ffff:{address}")
        return np.frombuffer(wide.packed, dtype="u1")

    made = np.zeros(len(rows), dtype=TRACE)
    for row, (t_us, src, sport, dst, dport, cwnd_bytes) in zip(made, rows, strict=True):
        row["t_us"], row["sport"], row["dport"], row["cwnd_bytes"] = t_us, sport, dport, cwnd_bytes
        row["saddr"], row["daddr"], row["ssthresh_bytes"] = octets(src), octets(dst), ssthresh_bytes
    return made


def records(*rows: tuple[int, int | None, str, int, str, int]) -> pd.DataFrame:
    names = ["t_us", "latency_us", "src", "src_port", "dst", "dst_port"]
    return pd.DataFrame(rows, columns=names).astype({"latency_us": "Int64"})


def test_the_window_is_the_last_one_before_the_packet_left() -> None:
    flow = ("fd00::1", 4000, "fd00::2", 5201)
    back = ("fd00::2", 5201, "fd00::1", 4000)
    old = ("10.0.0.1", 4000, "10.0.0.2", 5201)
    rows = traced(
        (3000, *flow, 30), (1000, *flow, 10), (2000, *flow, 20), (1500, *back, 99), (1000, *old, 50),
        ssthresh_bytes=2**64 - 1,
    )  # fmt: skip
    joined = join_windows(
        records((2900, 500, *flow), (2400, 500, *flow), (2400, None, *old), (900, None, *flow)), rows
    )
    assert joined["t_us"].tolist() == [900, 2400, 2900, 2400]
    assert joined["tcp_cwnd_bytes"].tolist() == [pd.NA, 10, 20, 50]
    assert joined["tcp_age_us"].tolist() == [pd.NA, 900, 400, 1400]
    assert joined["tcp_ssthresh_bytes"].isna().all()


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 3)), max_size=20),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 3)), max_size=20),
)
def test_a_join_loses_and_invents_nothing(
    packets: list[tuple[int, int]], rows: list[tuple[int, int]]
) -> None:
    # The window says when its row was made.
    trace = traced(*[(t, "fd00::1", port, "fd00::2", 1, t) for t, port in rows])
    joined = join_windows(records(*[(t, 0, "fd00::1", port, "fd00::2", 1) for t, port in packets]), trace)
    assert sorted(zip(joined["t_us"], joined["src_port"], strict=True)) == sorted(packets)
    for t, port, cwnd in joined[["t_us", "src_port", "tcp_cwnd_bytes"]].itertuples(index=False):
        before = [at for at, of in rows if of == port and at <= t]
        assert cwnd == max(before) if before else cwnd is pd.NA
