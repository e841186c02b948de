"""The table of peers, as it is printed and as documents have it."""

from __future__ import annotations

import io

from rich.console import Console

from experiments.bench import peers
from experiments.bench.peers import IN_PYTHON, OURS, Peers
from experiments.bench.rounds import Plan, Tally
from scripts.bench_tables import tables

ABOUT = {
    "command": ["ccp", "bench", "peers"],
    "git": None,
    "date": "2026-11-23T00:00:00+00:00",
    "host": {"kernel": "6.18.0", "cpu": "a processor", "cores": 2},
}


def measured() -> Peers:
    options = {"names": [OURS, "plain_cubic", IN_PYTHON], "missing": ["bbr"]}
    result = Peers("peers", Plan(), options, {"unlimited": Tally(6)}, about=ABOUT)
    for scenario in ("unlimited", "1gbit"):
        for label, value in (("", 1.01), (".plain_cubic", 0.99), (f".{IN_PYTHON}", 1.2)):
            result.add(
                f"cpu_per_gb_ratio.{scenario}{label}",
                [value - 0.01, value, value, value, value, 1.3],
                "ratio",
            )
        result.add(f"ack_ns.{scenario}", [255.0], "ns")
        result.add(f"ack_ns.{scenario}.plain_cubic", [230.0], "ns")
    return result


def test_there_is_a_line_for_each_path_and_congestion_control() -> None:
    found = list(peers.rows(measured()))
    assert [row[:2] for row in found] == [
        [path, name] for path in ("unlimited", "1gbit") for name in (OURS, "plain_cubic", IN_PYTHON)
    ]
    assert found[0] == ["unlimited", OURS, "1.01 (1 - 1.3)", "", "", "255"]
    assert found[4] == ["1gbit", "plain_cubic", "0.99 (0.98 - 1.3)", "", "", "230"]


def test_the_document_has_the_same_lines() -> None:
    text = tables([measured()])
    assert "| path | congestion control | CPU per GB | throughput | retransmits | an ACK [ns] |" in text
    assert f"| 1gbit | `{IN_PYTHON}` | 1.2 (1.19 - 1.3) |  |  |  |" in text


def test_what_the_kernel_has_not_got_is_said() -> None:
    out = io.StringIO()
    measured().print(Console(file=out, width=120))
    assert "this kernel has no bbr" in out.getvalue()
    assert "plain_cubic" in out.getvalue()
