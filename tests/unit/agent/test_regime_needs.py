"""The checks of `ccp doctor` for switching ordinary sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccplane.agent.features.regime.needs import needs

MOUNTS = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"


@pytest.mark.parametrize(
    ("available", "detail"),
    [
        (["reno", "dctcp", "ccp.dctcp"], "dctcp"),
        (["reno", "ccp.dctcp"], "ccp.dctcp"),
        (["reno", "ccp"], None),
    ],
)
def test_dctcp_is_the_kernels_or_own_or_missing(
    available: list[str], detail: str | None, tmp_path: Path
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    dctcp, cgroup = needs(available, mounts)
    assert (dctcp.ok, dctcp.required) == (detail is not None, False)
    assert dctcp.detail == (detail or "not loaded")
    assert (cgroup.ok, cgroup.detail) == (True, "/sys/fs/cgroup")


def test_a_missing_hierarchy_comes_with_its_fix(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS.splitlines()[0])
    _, cgroup = needs([], mounts)
    assert (cgroup.ok, cgroup.required) == (False, False)
    assert "mount -t cgroup2" in cgroup.fix
