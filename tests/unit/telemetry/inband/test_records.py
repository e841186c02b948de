from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from telemetry.inband.commands import app
from telemetry.inband.errors import InbandError
from telemetry.inband.records import COLUMNS, read_csv, write_parquet

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
