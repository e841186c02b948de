from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from experiments.netlab import LabError, formats
from experiments.netlab.cellular import describe
from experiments.netlab.cli import app
from experiments.netlab.formats import read_recording
from experiments.netlab.traces import read_trace
from experiments.units import MBIT

# Written by hand with the columns that the data sets document; none of their data.
RACA_4G = """\
Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,DL_bitrate,UL_bitrate,State,\
NRxRSRP,NRxRSRQ,ServingCell_Lon,ServingCell_Lat,ServingCell_Distance
2018.01.02_10.00.00,1.0,2.0,4,A,2,LTE,-100,-14,2.0,6,-94,12000,100,D,-,-,-,-,-
2018.01.02_10.00.01,1.0,2.0,5,A,2,LTE,-100,-13,3.0,6,-94,24000,100,D,-120.0,-18.0,1.0,2.0,600.0
2018.01.02_10.00.03,1.0,2.0,5,A,3,LTE,-101,-13,3.0,6,-94,0,100,D,-,-,-,-,-
"""
RACA_5G = """\
Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,DL_bitrate,UL_bitrate,State,\
PINGAVG,PINGMIN,PINGMAX,PINGSTDEV,PINGLOSS,CELLHEX,NODEHEX,LACHEX,RAWCELLID,NRxRSRP,NRxRSRQ
2020.02.14_09.00.00,1.0,2.0,2,B,1,5G,-89,-12,1.0,10,-89,12000,0,D,-,-,-,-,-,1,5,9,8,-89.0,-13.0
2020.02.14_09.00.00,1.0,2.0,2,B,1,5G,-87,-9,3.0,11,-89,36000,0,D,-,-,-,-,-,1,5,9,8,-88.0,-13.0
2020.02.14_09.00.02,1.0,2.0,0,B,1,LTE,-88,-10,1.0,10,-89,-,0,D,-,-,-,-,-,1,5,9,8,-88.0,-13.0
2020.02.14_09.00.04,1.0,2.0,0,B,1,LTE,-88,-10,1.0,10,-89,0,0,D,-,-,-,-,-,1,5,9,8,-88.0,-13.0
"""
LUMOS5G = """\
run_num,seq_num,abstractSignalStr,latitude,longitude,movingSpeed,compassDirection,nrStatus,lte_rssi,lte_rsrp,lte_rsrq,\
lte_rssnr,nr_ssRsrp,nr_ssRsrq,nr_ssSinr,Throughput,mobility_mode,trajectory_direction,tower_id
1,1,4,44.0,-93.0,0.5,120.0,CONNECTED,-60,-90,-10,20,-80,-10,15,12.0,walking,CW,3
1,2,4,44.0,-93.0,0.5,120.0,CONNECTED,-60,-90,-10,20,-80,-10,15,24.0,walking,CW,3
2,1,4,44.0,-93.0,9.5,120.0,NOT_RESTRICTED,-60,-90,-10,20,-80,-10,15,6.0,driving,CW,3
2,2,4,44.0,-93.0,9.5,120.0,NOT_RESTRICTED,-60,-90,-10,20,-80,-10,15,6.0,driving,CW,4
2,3,4,44.0,-93.0,9.5,120.0,NOT_RESTRICTED,-60,-90,-10,20,-80,-10,15,0.0,driving,CW,4
"""
GOPHERS = """\
protocol,num_tcp_conn,seq_num,anonymized_mCid,radio_type,throughput_mbps,nrStatus,primitive_handoff_type
TCP,8,1,3,4G,12,NOT_RESTRICTED,
TCP,8,2,3,5G,24,CONNECTED,P2
"""
STARLINK = """\
time,throughput,speed,latitude,longtitu
2023-04-12 10:40:20 CDT,12.0,62.9,45.0,-93.0
2023-04-12 10:40:21 CDT,24.0,62.9,45.0,-93.0
2023-04-10 08:00:00 CDT,6.0,0.0,45.0,-93.0
2023-04-10 08:00:01 CDT,6.0,0.0,45.0,-93.0
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "recording"
    file.write_text(text)
    return file


def per_second(file: Path, run: int = 1) -> list[int]:
    """Return the opportunities in each second of a recording; 12 Mbit/s are 1000."""
    times_ms = read_recording(file, run)
    assert np.all(np.diff(times_ms) >= 0)
    counts = np.bincount((times_ms - 1).clip(0) // 1000, minlength=int(times_ms[-1]) // 1000)
    return [int(count) for count in counts]


@pytest.mark.parametrize(
    ("text", "run", "opportunities"),
    [
        # The last opportunity is at the end, where the trace repeats, even if nothing is sent there.
        (RACA_4G, 1, [1000, 2000, 1999, 0, 1]),
        (RACA_5G, 1, [2000, 2000, 2000, 1999, 0, 0, 0, 1]),
        (LUMOS5G, 1, [1000, 2000]),
        (LUMOS5G, 2, [500, 499, 1]),
        (GOPHERS, 1, [1000, 2000]),
        (STARLINK, 1, [1000, 2000]),
        (STARLINK, 2, [500, 500]),
        ("time,rate\n0,12\n1,24\n", 1, [1000, 2000]),
        ("\ufeffTime , Rate_kbit\r\n5.5,12000\r\n6.5,24000\r\n", 1, [1000, 2000]),
        ("time_s,rate_bytes_per_s\n0,1.5e6\n2,3e6\n", 1, [1000, 1000, 2000, 2000]),
        ("0.0 12\n1.0 24\n", 1, [1000, 2000]),
        ("0\t12\n1\t24\n\n", 1, [1000, 2000]),
        ("1000\n1000\n2000\n", 1, [2, 1]),
    ],
)
def test_public_formats_become_traces(text: str, run: int, opportunities: list[int], tmp_path: Path) -> None:
    assert per_second(write(tmp_path, text), run) == opportunities


def test_a_trace_of_mahimahi_stays_as_it_is_or_is_scaled(tmp_path: Path) -> None:
    file = write(tmp_path, "0\n3\n3\n1000\n")
    assert read_recording(file).tolist() == [0, 3, 3, 1000]
    twice = read_recording(file, mean_bytes_per_s=8 * 1500)
    assert len(twice) == 8
    assert (twice[-1], (twice <= 3).sum()) == (1000, 6)


def test_a_recording_is_scaled_to_a_mean_rate(tmp_path: Path) -> None:
    file = write(tmp_path, RACA_4G)
    assert describe(read_recording(file, mean_bytes_per_s=2 * MBIT)).mean_bytes_per_s == pytest.approx(
        2 * MBIT, rel=0.01
    )


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("", "", "empty"),
        ("\n\n", "", "empty"),
        ("speed,rate\n1,2\n", ":1", "time"),
        ("time,speed\n1,2\n", ":1", "rate"),
        ("time,rate,throughput\n1,2,3\n", ":1", "several"),
        ("time,rate\n", "", "two times"),
        ("time,rate\n1,2\n", "", "two times"),
        ("time,rate\n1,2\n1,3\n", "", "two times"),
        ("time,rate\n1,2\n2,-\n", "", "two times"),
        ("time,rate\n1,2\n2,x\n", ":3", "`rate` is 'x'"),
        ("time,rate\n1,2\n2,-3\n", ":3", "'-3'"),
        ("time,rate\n1,2\n2,nan\n", ":3", "'nan'"),
        ("time,rate\n1,2\n2,inf\n", ":3", "'inf'"),
        ("time,rate\n1,2\n2,1e300\n", ":3", "'1e300'"),
        ("time,rate\n1,2\nsoon,3\n", ":3", "'soon'"),
        ("time,rate\n1,2\n2\n", ":3", "1 of 2 columns"),
        ("time,rate\n3,2\n1,2\n", ":3", "ascend"),
        ("time,rate\n0,0\n1,0\n", "", "carries 0 bytes"),
        ("time,rate\n0,1e9\n1,1e9\n", "", "unit of the rate"),
        ("time,rate\n0,1\n1e-9,1\n", "", "carries"),
        ("Timestamp,DL_bitrate\n2020.13.41_09.00.00,1\n", ":2", "2020.13.41"),
        ("0 1\n1 2 3\n", ":2", "'1 2 3'"),
        ("0 1\n1 x\n", ":2", "'x'"),
        ("1\n2\nx\n", ":3", "'x'"),
        ("9" * 5000 + "\n", ":1", "whole ms"),
        (f'time,rate\n1,"{"a" * 200_000}"\n', ":2", "CSV"),
    ],
)
def test_a_bad_recording_is_explained(text: str, line: str, word: str, tmp_path: Path) -> None:
    file = write(tmp_path, text)
    with pytest.raises(LabError) as caught:
        read_recording(file)
    error = caught.value
    assert error.slug == "lab.bad_value"
    assert error.where == f"{file}{line}"
    assert word in f"{error.message} {error.fix}"
    assert len(str(error)) < 1000
    assert error.fix


def test_a_run_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no run 3") as caught:
        read_recording(write(tmp_path, LUMOS5G), 3)
    assert "1 to 2" in caught.value.fix
    with pytest.raises(LabError, match="one run"):
        read_recording(write(tmp_path, "1\n2\n"), 2)


def test_files_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file, word in ((tmp_path / "none", "No such file"), (tmp_path, "directory")):
        with pytest.raises(LabError, match=word):
            read_recording(file)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x80\x81\xff")
    with pytest.raises(LabError, match="not text"):
        read_recording(binary)
    monkeypatch.setattr(formats, "MAX_FILE_BYTES", 1 << 20)
    with pytest.raises(LabError, match="larger than 1 MiB"):
        read_recording(write(tmp_path, "1\n" * (1 << 20)))


CELLS = st.one_of(
    st.sampled_from(
        ["time", "rate", "Timestamp", "DL_bitrate", "run_num", "seq_num", "Throughput", "-", "", '"']
    ),
    st.floats().map(str),
    st.integers(-5, 10**20).map(str),
    st.text(max_size=5),
)
LINES = st.lists(
    st.lists(CELLS, max_size=4).map(",".join) | st.lists(CELLS, max_size=3).map(" ".join), max_size=6
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(LINES.map("\n".join) | LINES.map(lambda lines: "\n".join(["time,rate,run_num", *lines])))
def test_no_file_is_a_traceback(tmp_path: Path, text: str) -> None:
    file = tmp_path / "any"
    file.write_bytes(text.encode(errors="surrogatepass"))
    try:
        times_ms = read_recording(file)
    except LabError:
        return
    assert np.all(np.diff(times_ms) >= 0)
    assert times_ms[-1] > 0


def test_the_command_converts(tmp_path: Path) -> None:
    out = tmp_path / "out.trace"
    done = CliRunner().invoke(app, ["trace", str(write(tmp_path, LUMOS5G)), "--run", "2", "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert read_trace(out, "trace") == read_recording(tmp_path / "recording", 2).tolist()
    assert "3 s, mean 4.00 Mbit/s" in done.output
