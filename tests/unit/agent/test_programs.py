from __future__ import annotations

from pathlib import Path

import pytest

from ccplane.agent.flow import FlowControl
from ccplane.agent.programs import ProgramSet
from ccplane.base.errors import LoadError, VerifierError
from tests.unit.agent.fakes import FakeInfo, FakeProgram, fake_datapath


def test_programs_are_installed_once_whatever_the_number_of_flows() -> None:
    datapath = fake_datapath(*(FakeInfo(i) for i in range(10)))
    programs = ProgramSet("alg", datapath, {"a": FakeProgram("a"), "b": FakeProgram("b")}, "a")
    for info in datapath.flows():
        FlowControl(info, programs, datapath).open()
    assert sorted(datapath.installed) == [1, 2]
    assert programs.named("a").users == 10
    assert programs.named("b").users == 0


def test_extensions_are_loaded_before_the_programs(tmp_path: Path) -> None:
    own = tmp_path / "counter.bpf.o"
    own.write_bytes(b"ELF")
    datapath = fake_datapath(refuse=["a"])
    with pytest.raises(VerifierError):
        ProgramSet("alg", datapath, {"a": FakeProgram("a")}, "a", extensions=("rate_limits", own))
    assert datapath.extensions == [("rate_limits", None), ("counter", b"ELF")]


def test_extension_whose_object_is_missing_is_named_with_its_path(tmp_path: Path) -> None:
    own = tmp_path / "counter.bpf.o"
    with pytest.raises(LoadError) as refused:
        ProgramSet("alg", fake_datapath(), {"a": FakeProgram("a")}, "a", extensions=(own,))
    assert (refused.value.slug, refused.value.where) == ("load.no_extension", str(own))
    assert "No such file" in refused.value.why


def test_replaced_program_goes_when_its_last_flow_has_left() -> None:
    datapath = fake_datapath(FakeInfo(1), FakeInfo(2))
    programs = ProgramSet("alg", datapath, {"a": FakeProgram("a")}, "a")
    flows = [FlowControl(info, programs, datapath) for info in datapath.flows()]
    for flow in flows:
        flow.open()
    before, after = programs.replace("a", FakeProgram("a", uid=2))
    assert before is not None
    assert sorted(datapath.installed) == [1, 2]
    assert flows[0].move(after)
    assert sorted(datapath.installed) == [1, 2]
    flows[1].retire()
    assert sorted(datapath.installed) == [2]
    assert programs.initial is after


def test_replaced_program_goes_at_once_when_none_runs_it() -> None:
    datapath = fake_datapath()
    programs = ProgramSet("alg", datapath, {"a": FakeProgram("a")}, "a")
    programs.replace("a", FakeProgram("a", uid=2))
    assert sorted(datapath.installed) == [2]
