from __future__ import annotations

import pytest

from ccp_algs import Algorithm, Param
from ccplane.agent import params
from ccplane.base.errors import ParamError, UsageError


def classes() -> dict[str, type[Algorithm]]:
    """Two fresh algorithms, because a class keeps its parameters after a test."""

    class One(Algorithm):
        program = "x"
        beta = Param(0.5, min=0.1, max=0.9)
        gain = Param(2)

    class Two(Algorithm):
        program = "x"
        beta = Param(0.7, min=0.1, max=0.9)

    return {"one": One, "two": Two}


def test_settings_are_read_as_text() -> None:
    assert params.parse(["beta=0.8", " one.gain = 3 ", "name=a=b"]) == {
        "beta": "0.8",
        "one.gain": "3",
        "name": "a=b",
    }


@pytest.mark.parametrize("setting", ["beta", "=3", ""])
def test_setting_without_name_or_value_is_refused(setting: str) -> None:
    with pytest.raises(ParamError) as caught:
        params.parse([setting])
    assert caught.value.slug == "param.syntax"
    assert "NAME=VALUE" in caught.value.fix


def test_plain_name_sets_it_for_every_algorithm_that_has_it() -> None:
    algorithms = classes()
    params.set_all({"beta": "0.8", "gain": "5"}, algorithms)
    assert (algorithms["one"].beta, algorithms["two"].beta, algorithms["one"].gain) == (0.8, 0.8, 5)


def test_qualified_name_sets_it_for_one_algorithm() -> None:
    algorithms = classes()
    params.set_all({"two.beta": 0.3}, algorithms)
    assert (algorithms["one"].beta, algorithms["two"].beta) == (0.5, 0.3)


@pytest.mark.parametrize(
    ("name", "value", "slug", "hint"),
    [
        ("betta", "0.5", "param.unknown_params", "`beta`"),
        ("one.betta", "0.5", "param.unknown", "`beta`"),
        ("three.beta", "0.5", "algorithm.unknown", "one"),
        ("one.beta", "7", "param.out_of_range", "0.9"),
        ("one.gain", "many", "param.wrong_type", "such as 2"),
    ],
)
def test_wrong_setting_says_what_to_do(name: str, value: str, slug: str, hint: str) -> None:
    with pytest.raises((ParamError, UsageError)) as caught:
        params.set_all({name: value}, classes())
    assert caught.value.slug == slug
    assert hint in caught.value.fix
