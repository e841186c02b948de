"""The suites of single algorithms: the algorithms pass their own, and others fail what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.conform import Controller, run_suite

DEFECTS = Path(__file__).parent / "defects"
HYSTARTPP = Controller("cubic", {"css_rounds": 5})
SECOND_LOOK = {"resumes"}
"""What HyStart++ has, and HyStart has not."""


def outcomes(suite: str, controller: Controller | str, outcome: str, seeds: range = range(1, 2)) -> set[str]:
    return {one.case for one in run_suite(suite, controller, seeds=seeds) if one.outcome == outcome}


OWN = [
    ("reno", "kernel/reno", set()),
    ("reno", "reno", set()),
    ("cubic", "kernel/cubic", set()),
    ("cubic", "cubic", set()),
    ("dctcp", "dctcp", set()),
    ("slow-start", HYSTARTPP, set()),
    ("slow-start", "kernel/cubic", SECOND_LOOK),
    ("slow-start", "cubic", SECOND_LOOK),
]


@pytest.mark.parametrize(("suite", "controller", "failing"), OWN)
def test_algorithms_pass_their_own_suite(suite: str, controller: Controller | str, failing: set[str]) -> None:
    assert outcomes(suite, controller, "fails") == failing
    assert outcomes(suite, controller, "undecided") == set()


@pytest.mark.long
@pytest.mark.parametrize(("suite", "controller", "failing"), OWN)
def test_algorithms_pass_their_own_suite_on_ten_seeds(
    suite: str, controller: Controller | str, failing: set[str]
) -> None:
    assert outcomes(suite, controller, "fails", range(1, 11)) == failing


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
