"""Every registered algorithm keeps the contract, and its programs compile."""

import pytest

from ccp_algs import check_algorithm, params_of, registry
from ccp_algs.api import programs_of
from ccplane.base._native import compile


@pytest.mark.parametrize("name", registry.names())
def test_algorithm_keeps_the_contract(name: str) -> None:
    summary = check_algorithm(registry.get(name), compile)
    assert summary.name == name
    assert summary.reports > 20


@pytest.mark.parametrize("name", registry.names())
def test_module_names_sources_and_deviations(name: str) -> None:
    module = __import__(registry.get(name).__module__, fromlist=["_"])
    assert "Source" in module.__doc__
    assert "eviation" in module.__doc__ or "no algorithm" in module.__doc__


@pytest.mark.parametrize("name", registry.names())
def test_parameters_say_what_they_do(name: str) -> None:
    for param in params_of(registry.get(name)).values():
        assert param.doc


@pytest.mark.parametrize("name", registry.names())
def test_program_fits_the_datapath(name: str) -> None:
    for source in programs_of(registry.get(name)).values():
        program = compile(source)
        assert program.n_instructions <= 600
        assert len(program.control_registers) <= 64
        assert len(program.report_fields) <= 64
