"""The suites of single algorithms: the algorithms pass their own, and others fail what differs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from experiments.conform import run_suite
from experiments.events import ParamValue

DEFECTS = Path(__file__).parent / "defects"
HYSTARTPP = {"css_rounds": 5}
"""Parameters with which CUBIC has HyStart++."""
SECOND_LOOK = {"resumes"}
"""What HyStart++ has, and HyStart has not."""


def outcomes(
    suite: str,
    algorithm: str,
    outcome: str,
    params: Mapping[str, ParamValue] | None = None,
    seeds: range = range(1, 2),
) -> set[str]:
    results = run_suite(suite, algorithm, params=params, seeds=seeds)
    return {one.case for one in results if one.outcome == outcome}


OWN = [
    ("reno", "kernel/reno", None, set()),
    ("reno", "reno", None, set()),
    ("cubic", "kernel/cubic", None, set()),
    ("cubic", "cubic", None, set()),
    ("dctcp", "dctcp", None, set()),
    ("slow-start", "cubic", HYSTARTPP, set()),
    ("slow-start", "kernel/cubic", None, SECOND_LOOK),
    ("slow-start", "cubic", None, SECOND_LOOK),
]


@pytest.mark.parametrize(("suite", "algorithm", "params", "failing"), OWN)
def test_algorithms_pass_their_own_suite(
    suite: str, algorithm: str, params: Mapping[str, ParamValue] | None, failing: set[str]
) -> None:
    assert outcomes(suite, algorithm, "fails", params) == failing
    assert outcomes(suite, algorithm, "undecided", params) == set()


@pytest.mark.long
@pytest.mark.parametrize(("suite", "algorithm", "params", "failing"), OWN)
def test_algorithms_pass_their_own_suite_on_ten_seeds(
    suite: str, algorithm: str, params: Mapping[str, ParamValue] | None, failing: set[str]
) -> None:
    assert outcomes(suite, algorithm, "fails", params, range(1, 11)) == failing


@pytest.mark.parametrize(
    ("suite", "algorithm", "failing"),
    [
        ("reno", "cubic", {"avoidance-adds-one", "loss-halves", "one-reduction-per-window"}),
        ("cubic", "kernel/reno", {"multiplicative-decrease", "curve", "fast-convergence", "timeout"}),
        ("cubic", str(DEFECTS / "truncated_cube_root.py"), {"curve", "multiplicative-decrease"}),
        ("dctcp", "reno", {"proportional-reduction"}),
        ("slow-start", "kernel/reno", {"leaves-before-losses"}),
        ("reno", str(DEFECTS / "endless_slow_start.py"), {"avoidance-adds-one", "timeout-restarts"}),
    ],
)
def test_other_algorithms_fail(suite: str, algorithm: str, failing: set[str]) -> None:
    assert failing <= outcomes(suite, algorithm, "fails")
