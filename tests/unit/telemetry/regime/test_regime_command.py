from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from telemetry.regime.commands import app

HEADER = "t_s,rtt_tail_ms,ce_marks,retransmits\n"


def replay(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


def trace(path: Path, rows: list[str], header: str = HEADER) -> Path:
    path.write_text(header + "".join(row + "\n" for row in rows))
    return path


@pytest.fixture
def lossy(tmp_path: Path) -> Path:
    return trace(tmp_path / "a.csv", [f"{5 * i},1.0,0,{3 if i > 4 else ''}" for i in range(11)])


def test_programs_read_an_object_an_interval(lossy: Path) -> None:
    result = replay(lossy, "--json")
    assert result.exit_code == 0
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["score"] for row in rows] == [*5 * [0], *6 * [1]]
    assert [row["density"] for row in rows[4:10]] == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert [row["regime"] for row in rows[3:5]] == ["SHARED", "SINGLE_OWNER"]  # the baseline is known
    assert rows[-2] == {
        "t_s": 45.0,
        "score": 1,
        "density": 1.0,
        "estimate": "SHARED",
        "regime": "SHARED",
        "switched": True,
        "is_own": False,
    }


def test_people_read_a_table(lossy: Path) -> None:
    lines = replay(lossy).stdout.splitlines()
    assert lines[0].split() == ["t_s", "score", "density", "estimate", "regime"]
    assert lines[-2].split() == ["45", "1", "1.00", "SHARED", "SHARED", "<-", "changed"]


def test_every_parameter_can_be_set(lossy: Path, tmp_path: Path) -> None:
    def regimes(*options: str, of: Path = lossy) -> list[str]:
        given = [word for one in options for word in (["--param", one] if "=" in one else [one])]
        return [json.loads(line)["regime"] for line in replay(of, "--json", *given).stdout.splitlines()]

    known = ("baseline_ms=1",)
    assert regimes(*known)[0] == "SINGLE_OWNER"
    assert set(regimes(*known, "start=shared", "persistence=99")) == {"SHARED"}
    assert regimes(*known, "window=1", "persistence=1").index("SHARED") == 5
    assert regimes(*known, "majority=0.2", "persistence=1").index("SHARED") == 5
    assert set(regimes(*known, "noise_retransmits=3")) == {"SINGLE_OWNER"}
    lost = trace(tmp_path / "lost.csv", [f"{5 * i},1.0,0,1" for i in range(9)])
    assert set(regimes(*known, of=lost)) == {"SINGLE_OWNER"}
    assert "SHARED" in regimes(
        *known, "--mode", "fast", of=lost
    )  # a single event in 100 ms exceeds the noise
    slow = trace(tmp_path / "slow.csv", [f"{5 * i},9,2," for i in range(9)])
    assert "SHARED" in regimes("baseline_ms=1", "noise_ce_marks=2", of=slow)
    assert "SHARED" not in regimes("baseline_ms=1", "noise_ce_marks=2", "delta_ms=8", of=slow)
    assert regimes("noise_ce_marks=2", of=slow)[-1] == "SINGLE_OWNER"  # 9 ms are the baseline
    late = trace(tmp_path / "late.csv", [f"{5 * i},{9 if i else 1},," for i in range(9)])
    assert regimes("baseline_samples=1", of=late)[0] == "SINGLE_OWNER"
    assert regimes("baseline_samples=1", of=late)[-1] == "SHARED"
    assert regimes("baseline_horizon_s=4", of=late)[-1] == "SINGLE_OWNER"
    header = "t_s,rtt_min_ms,rtt_tail_ms,ce_marks,retransmits\n"
    busy = trace(tmp_path / "busy.csv", [f"{5 * i},1,9,," for i in range(9)], header)
    assert regimes(of=busy)[-1] == "SHARED"
    assert regimes("baseline_of=tail", of=busy)[-1] == "SINGLE_OWNER"
    back = trace(tmp_path / "back.csv", [f"{i},1,,{9 if 0 < i < 4 else 0}" for i in range(9)])
    quick = (*known, "window=1", "persistence=1")
    assert regimes(*quick, "cooldown_s=2", of=back)[:5] == ["SINGLE_OWNER", *3 * ["SHARED"], "SINGLE_OWNER"]
    assert set(regimes(*quick, "cooldown_s=60", of=back)[1:]) == {"SHARED"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("t_s,rtt_tail_ms\n0,1\n", ["regime.bad_trace", "missing column ce_marks, retransmits", "line 1"]),
        ("", ["regime.bad_trace", "the header line names no columns"]),
        (HEADER + "0,1,0,0\n5,x,0,0\n", ["regime.bad_trace", "invalid rtt_tail_ms: `x`", "line 3"]),
        (HEADER + "0,1,-2,0\n", ["regime.bad_trace", "below 0", "line 2"]),
        (HEADER + "0,inf,2,0\n", ["regime.bad_trace", "not finite"]),
        (HEADER + ",1,2,0\n", ["regime.bad_trace", "invalid t_s: ``"]),
    ],
)
def test_a_wrong_series_is_named_with_its_line(tmp_path: Path, text: str, says: list[str]) -> None:
    path = trace(tmp_path / "wrong.csv", [], text)
    result = replay(path)
    assert result.exit_code == 1
    assert all(part in result.stderr for part in says), result.stderr


def test_what_is_no_text_or_not_there(tmp_path: Path) -> None:
    binary = tmp_path / "a.bin"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (binary, tmp_path / "none.csv"):
        result = replay(path)
        assert result.exit_code == 1
        assert "regime.cannot_read" in result.stderr
    assert "regime.bad_option" in replay(binary, "--param", "start=ours").stderr


def test_other_columns_and_orders_are_fine(tmp_path: Path) -> None:
    path = trace(tmp_path / "b.csv", ["x,9,,0"], "note, retransmits ,rtt_tail_ms,t_s,ce_marks\n")
    result = replay(path, "--json")
    assert json.loads(result.stdout)["score"] == 1
