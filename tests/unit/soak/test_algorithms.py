from __future__ import annotations

import pytest

from ccplane.agent.candidate import prepare
from ccplane.agent.source import Source
from ccplane.base.errors import CcpError
from ccplane.datapath.ebpf import compile_program
from experiments.soak import algorithms
from experiments.soak.algorithms import NAME, bad, good, raising


@pytest.mark.parametrize("text", [good(3), raising(3)], ids=["good", "raising"])
def test_what_an_agent_is_to_take_passes_its_check(text: str) -> None:
    taken = prepare(Source(text, "<soak>"), compile_program)
    assert taken.name == NAME


@pytest.mark.parametrize("which", range(len(algorithms.BAD)))
def test_what_it_is_to_refuse_is_refused_and_each_for_a_reason_of_its_own(which: int) -> None:
    _, text = bad(3, which)
    assert text != good(3)
    with pytest.raises(CcpError):
        prepare(Source(text, "<soak>"), compile_program)
