from __future__ import annotations

from pathlib import Path

from pyroute2 import netns

from telemetry.netns import DIRECTORY, path_of


def test_names_are_where_netlinks_library_has_them() -> None:
    assert Path(netns.NETNS_RUN_DIR) == DIRECTORY


def test_a_namespace_is_given_by_name_or_path() -> None:
    assert path_of("red") == DIRECTORY / "red"
    assert path_of("/proc/1/ns/net") == Path("/proc/1/ns/net")
