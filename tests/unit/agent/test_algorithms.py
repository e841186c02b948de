from __future__ import annotations

import functools
import textwrap
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ccp_algs import Algorithm, VectorAlgorithm, registry
from ccplane.agent.algorithms import (
    check_contract,
    check_signatures,
    compile_programs,
    find,
    name_of,
    prepare,
)
from ccplane.agent.locate import shown
from ccplane.base.errors import Several, UsageError
from ccplane.datapath import ebpf

GOOD = "(def (Report (volatile acked 0))) (when true (:= Report.acked Ack.bytes_acked) (report))"


def write(path: Path, body: str) -> Path:
    path.write_text("from ccp_algs import Algorithm, register\n" + textwrap.dedent(body))
    return path


def test_algorithm_is_found_by_name_file_and_class(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.py", f"class Mine(Algorithm):\n    program = {GOOD!r}\n")
    assert find("reno") is registry.get("reno")
    assert find(str(file)).__name__ == "Mine"
    assert find(f"{file}:Mine").__name__ == "Mine"
    assert find("ccp_algs.reno:Reno") is find("reno")


@pytest.mark.parametrize(
    ("body", "line"),
    [("x = 1\ny = nowhere\n", 3), ("x = 1\n\ndef broken(:\n", 4), ("import json\njson.loads('{')\n", 3)],
    ids=["name error", "syntax error", "raised in a library"],
)
def test_import_error_names_the_line_of_the_file(tmp_path: Path, body: str, line: int) -> None:
    file = write(tmp_path / "broken.py", body)
    with pytest.raises(UsageError) as caught:
        find(str(file))
    assert caught.value.where == f"{file}:{line}"
    assert caught.value.__cause__ is not None


def test_name_is_the_registered_one_else_that_of_the_file_else_that_of_the_class() -> None:
    class Some(Algorithm):
        program = GOOD

    assert name_of(find("reno"), "whatever.py") == "reno"
    assert name_of(Some, "dir/My-Alg.py") == "my_alg"
    assert name_of(Some, "dir/file.py:Some") == "file"
    assert name_of(Some, "package.module:Some") == "some"


def test_programs_that_do_not_compile_are_reported_together() -> None:
    class Bad(Algorithm):
        program: ClassVar = {"one": "(nonsense", "two": GOOD, "three": "(when)"}

    with pytest.raises(Several) as caught:
        compile_programs(Bad, ebpf.compile_program)
    assert len(caught.value.errors) == 2
    assert '"one"' in caught.value.errors[0].where
    assert '"three"' in caught.value.errors[1].where


def test_first_program_is_the_one_that_flows_start_with(tmp_path: Path) -> None:
    file = write(
        tmp_path / "two.py", f"class Two(Algorithm):\n    program = {{'b': {GOOD!r}, 'a': {GOOD!r}}}\n"
    )
    (running,) = prepare([str(file)], ebpf.compile_program)
    assert (running.name, running.initial, running.cc_name) == ("two", "b", "ccp.two")
    assert list(running.programs) == ["b", "a"]


def test_all_algorithms_that_cannot_be_had_are_reported_at_once() -> None:
    with pytest.raises(Several) as caught:
        prepare(["nobody", "reno", "reno", "nothing.py"], ebpf.compile_program)
    assert [error.slug for error in caught.value.errors] == [
        "registry.unknown",
        "algorithm.duplicate",
        "registry.unknown",
    ]


@pytest.mark.parametrize("base", [Algorithm, VectorAlgorithm])
@pytest.mark.parametrize("name", ["on_create", "on_close", "on_reload", "on_telemetry"])
def test_a_callback_with_other_parameters_is_refused_even_if_no_report_needs_it(
    name: str, base: type
) -> None:
    wrong = type("Wrong", (base,), {"program": GOOD, name: lambda self: None})
    with pytest.raises(UsageError) as caught:
        check_contract(wrong)
    assert caught.value.slug == "algorithm.bad_signature"
    assert caught.value.where == shown(f"{__file__}:{wrong.__dict__[name].__code__.co_firstlineno}")
    assert f"def {name}(self, " in caught.value.fix


@pytest.mark.parametrize(
    "callback",
    [
        lambda *_: None,
        lambda self, report, more=0: None,
        staticmethod(lambda report: None),
        functools.partialmethod(lambda self, more, report: None, 1),
    ],
)
def test_a_callback_may_be_defined_in_any_way_that_takes_its_arguments(callback: Any) -> None:
    check_contract(type("Fits", (Algorithm,), {"program": GOOD, "on_report": callback}))


@pytest.mark.parametrize("name", registry.names())
def test_the_algorithms_of_ccplane_have_callbacks_that_can_be_called(name: str) -> None:
    check_signatures(registry.get(name))
