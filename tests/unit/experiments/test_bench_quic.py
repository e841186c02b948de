from __future__ import annotations

from pathlib import Path

import pytest

from ccplane.base.errors import LoadError
from ccplane.datapath import registry
from experiments import examples
from experiments.agent_process import running_agent
from experiments.bench import quic
from experiments.bench.errors import BenchError
from experiments.bench.rounds import Plan, Unfit
from experiments.traffic import files


def test_a_program_that_nobody_built_is_named_with_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(BenchError) as caught:
        quic.run(Plan(1, 1), tmp_path / "files")
    assert caught.value.slug == "bench.no_example"
    assert caught.value.where == str(tmp_path / "files")
    assert examples.build(files.CRATE, files.EXAMPLE) in caught.value.fix


def test_figures_are_read_from_what_the_example_says() -> None:
    assert quic.number("50000000 octets in 4.210 s, 95.01 Mbit/s", r"in ([\d.]+) s") == 4.21
    with pytest.raises(Unfit, match="no such file"):
        quic.number("no such file", r"in ([\d.]+) s")


def test_an_agent_without_the_kernel_is_at_its_socket_and_says_why_it_does_not_start(tmp_path: Path) -> None:
    socket = tmp_path / "agent"
    with running_agent("cubic", "--datapath", registry.QUIC, bind=socket) as agent:
        assert str(socket) in agent.greeting
    with (
        pytest.raises(LoadError) as caught,
        running_agent("no_such_algorithm", "--datapath", registry.QUIC, bind=socket),
    ):
        raise AssertionError
    assert caught.value.slug == "load.agent"
    assert "no_such_algorithm" in caught.value.why
