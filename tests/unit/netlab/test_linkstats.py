"""Samples of links are rows of a table whose columns are named once."""

from __future__ import annotations

import csv
import threading
from pathlib import Path

from experiments.netlab import LabError
from experiments.netlab.linkstats import SAMPLE_COLUMNS, LinkStats, Sampler

COUNTED = LinkStats(delivered_pkts=3, delivered_bytes=4500, dropped_queue_pkts=1)
ROOT = Path(__file__).parents[3]


def test_the_emulator_writes_the_same_columns() -> None:
    source = (ROOT / "native/ccp-emu/src/record/samples.rs").read_text()
    header = source.partition('const HEADER: &str = "')[2].partition('\\n"')[0]
    assert header.replace("\\\n", "").replace(" ", "") == ",".join(SAMPLE_COLUMNS)


def test_rows_come_until_the_end_and_what_is_not_counted_is_empty(tmp_path: Path) -> None:
    asked = threading.Semaphore(0)

    def stats() -> dict[str, LinkStats]:
        asked.release()
        return {"link>": COUNTED, "link<": COUNTED}

    sampler = Sampler(tmp_path / "links.csv", 1000, stats)
    for _ in range(3):
        assert asked.acquire(timeout=10)
    sampler.stop()
    sampler.stop()
    with open(tmp_path / "links.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 2 * 3
    assert [row["link"] for row in rows[:4]] == ["link>", "link<", "link>", "link<"]
    times = [int(row["t_us"]) for row in rows[::2]]
    assert times == sorted(times)
    given = {name: value for name, value in rows[0].items() if value}
    assert given.keys() == {"t_us", "link", "delivered_pkts", "delivered_bytes", "dropped_queue_pkts"}
    assert given["delivered_bytes"] == "4500"


def test_a_network_that_goes_ends_the_rows(tmp_path: Path) -> None:
    gone = threading.Event()

    def stats() -> dict[str, LinkStats]:
        gone.set()
        raise LabError("lab.closed", "the network is gone")

    sampler = Sampler(tmp_path / "links.csv", 1000, stats)
    assert gone.wait(10)
    sampler.stop()
    assert (tmp_path / "links.csv").read_text().splitlines() == [",".join(SAMPLE_COLUMNS)]
