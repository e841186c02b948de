from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccplane.agent.names import MAX_LENGTH, cc_names, check, derived
from ccplane.base.errors import Several, UsageError


def test_each_algorithm_gets_its_name() -> None:
    assert cc_names(["cubic", "dctcp"], {}) == {"cubic": "ccp.cubic", "dctcp": "ccp.dctcp"}


def test_long_name_is_cut_to_what_the_kernel_holds() -> None:
    assert cc_names(["example_aimd"], {}) == {"example_aimd": "ccp.example_aim"}


def test_explicit_name_wins() -> None:
    assert cc_names(["example_aimd"], {"example_aimd": "ccp.aimd"}) == {"example_aimd": "ccp.aimd"}


def test_two_algorithms_with_one_cut_name_are_refused_with_a_way_out() -> None:
    with pytest.raises(UsageError) as caught:
        cc_names(["long_name_of_one", "long_name_of_two"], {})
    assert caught.value.slug == "name.duplicate"
    assert "--cc-name long_name_of_two=" in caught.value.fix
    _, suggested = caught.value.fix.split("--cc-name ")[1].split("=")
    assert cc_names(["long_name_of_one", "long_name_of_two"], {"long_name_of_two": suggested})


@pytest.mark.parametrize(
    "name", ["cubic", "ccp", "ccp.", "ccp.sixteen_chars", "ccp.With", "ccp.a-b", "ccp.a b"]
)
def test_bad_explicit_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        cc_names(["a"], {"a": name})
    assert caught.value.slug == "name.invalid"
    assert caught.value.where == f"--cc-name a={name}"


def test_name_for_an_algorithm_that_does_not_run_is_refused() -> None:
    with pytest.raises(Several) as caught:
        cc_names(["cubic"], {"cubik": "ccp.x", "reno": "ccp.y"})
    assert {error.slug for error in caught.value.errors} == {"algorithm.unknown"}
    assert "`cubic`" in caught.value.errors[0].fix


@given(st.text(min_size=1))
def test_derived_name_is_always_one_the_kernel_takes(algorithm: str) -> None:
    name = derived(algorithm)
    check(name, "here")
    assert len(name.encode()) <= MAX_LENGTH
