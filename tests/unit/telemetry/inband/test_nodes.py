from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from telemetry.inband.errors import InbandError
from telemetry.inband.nodes import NodeInfo, node_table, read_nodes


def test_a_table_is_read_from_yaml(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text("7: {name: ap1}\n8:\n  queue_depth_unit: bytes\n")
    assert read_nodes(file) == {7: NodeInfo(name="ap1"), 8: NodeInfo(queue_depth_unit="bytes")}
    file.write_text("# nothing yet\n")
    assert read_nodes(file) == {}


def test_json_has_numbers_as_words() -> None:
    assert node_table({"7": {"name": "ap1"}}) == {7: NodeInfo(name="ap1")}


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ([], ""),
        ({"ap1": {}}, "key in $"),
        ({-1: {}}, "key in $"),
        ({7: {"unit": "bytes"}}, "$[...]"),
        ({7: {"queue_depth_unit": "words"}}, "$[...].queue_depth_unit"),
    ],
)
def test_anything_else_is_refused_by_its_place(data: Any, where: str) -> None:
    with pytest.raises(InbandError) as caught:
        node_table(data)
    assert (caught.value.slug, caught.value.where) == ("int.bad_nodes", where)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("7: {")
    for file in (broken, tmp_path / "missing.yaml"):
        with pytest.raises(InbandError) as caught:
            read_nodes(file)
        assert (caught.value.slug, caught.value.where) == ("int.bad_nodes", str(file))
