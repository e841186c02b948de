from __future__ import annotations

from pathlib import Path

import pytest

from ccplane.base.errors import CcpError, UsageError
from experiments.evaluate import controllers
from experiments.evaluate.errors import SLUGS, EvaluateError

MINE = Path(__file__).parents[4] / "ccplane/templates/mine.py"


def test_a_file_is_resolved_once_so_that_it_can_be_run_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "aimd.py"
    file.write_text(MINE.read_text().replace('@register("mine")\n', ""))
    monkeypatch.chdir(tmp_path)
    assert controllers.resolve("aimd.py").algorithm == str(file)
    assert controllers.resolve("aimd.py").label == "aimd"
    assert controllers.resolve("aimd.py:Mine").algorithm == f"{file}:Mine"


def test_ccplanes_and_the_kernels_have_different_labels() -> None:
    found = controllers.resolve_all(["cubic", "kernel/cubic"])
    assert [one.label for one in found] == ["ccplane CUBIC", "kernel CUBIC"]
    assert all(one.simulated for one in found)


@pytest.mark.parametrize(
    ("names", "slug", "fix"),
    [
        (["kernel/"], "evaluate.no_controller", "kernel/cubic"),
        (["kernel/ccp"], "evaluate.no_controller", "kernel/cubic"),
        (["quinn/cubic"], "evaluate.no_controller", "kernel/NAME"),
        (["kernel/vegas"], "evaluate.not_simulated", "without --quick"),
        (["cubic", "cubic"], "evaluate.twice", "leave one"),
    ],
)
def test_a_name_that_cannot_be_evaluated_is_refused(names: list[str], slug: str, fix: str) -> None:
    assert slug in SLUGS
    with pytest.raises(EvaluateError) as caught:
        controllers.resolve_all(names, simulate=True)
    assert caught.value.slug == slug
    assert fix in caught.value.fix


def test_a_similar_name_is_suggested_and_the_kernels_too() -> None:
    with pytest.raises(UsageError) as caught:
        controllers.resolve("cubik")
    assert "cubic" in caught.value.fix
    assert "kernel/cubik" in caught.value.fix


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CcpError) as caught:
        controllers.resolve(str(tmp_path / "none.py"))
    assert "none.py" in str(caught.value)


def test_real_sockets_can_have_what_the_simulator_lacks() -> None:
    assert not controllers.resolve("kernel/vegas").simulated


def test_cubic_is_compared_with_reno_and_all_others_with_cubic() -> None:
    def names(subject: str, *against: str) -> list[str]:
        found = controllers.references(
            controllers.resolve_all([subject]), controllers.resolve_all(against) if against else ()
        )
        return [one.given for one in found]

    assert names("cubic") == ["kernel/cubic"]
    assert names("kernel/cubic") == ["kernel/reno"]
    assert names("kernel/bbr", "kernel/reno", "cubic") == ["kernel/cubic", "kernel/reno", "cubic"]
    assert names("kernel/bbr", "kernel/cubic", "kernel/bbr") == ["kernel/cubic"]


def test_an_algorithm_whose_callbacks_fail_is_refused_before_it_is_run(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(MINE.read_text().replace("congested = report.lost > 0", "raise ValueError"))
    with pytest.raises(UsageError) as caught:
        controllers.resolve(str(file))
    assert caught.value.slug == "algorithm.check_failed"
    assert "broken.py" in caught.value.where
