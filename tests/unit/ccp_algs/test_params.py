from collections.abc import Callable

import numpy as np
import pytest

from ccp_algs import Algorithm, Param, ParamError, params_of, set_params
from ccp_algs.params import Settings, changes
from ccplane.base.errors import Several


def make() -> type[Algorithm]:
    class Vegas(Algorithm):
        alpha_pkts = Param(2, min=1, max=100, unit="segments", doc="lower bound of the queue")
        gain = Param(0.5, min=0.0, max=1.0)
        fast = Param(True)
        mode = Param("quick", choices=("quick", "calm"))

    return Vegas


def test_default_holds_until_set() -> None:
    cls = make()
    assert (cls.alpha_pkts, cls().alpha_pkts, cls.mode) == (2, 2, "quick")  # type: ignore[attr-defined]


def test_class_wide_value_reaches_flows_that_run_already() -> None:
    cls = make()
    flow = cls()
    cls.alpha_pkts = 7  # type: ignore[attr-defined]
    assert (flow.alpha_pkts, cls().alpha_pkts, cls.alpha_pkts) == (7, 7, 7)  # type: ignore[attr-defined]


def test_value_of_one_flow_stays_its_own() -> None:
    cls = make()
    one, other = cls(), cls()
    one.alpha_pkts = 5  # type: ignore[attr-defined]
    cls.alpha_pkts = 9  # type: ignore[attr-defined]
    assert (one.alpha_pkts, other.alpha_pkts) == (5, 9)  # type: ignore[attr-defined]


def test_derived_class_has_values_of_its_own() -> None:
    cls = make()
    derived = type("Derived", (cls,), {})
    derived.alpha_pkts = 50  # type: ignore[attr-defined]
    assert (cls.alpha_pkts, derived.alpha_pkts, derived().alpha_pkts) == (2, 50, 50)  # type: ignore[attr-defined]
    cls.gain = 0.25  # type: ignore[attr-defined]
    assert derived.gain == 0.25  # type: ignore[attr-defined]


def test_other_class_attributes_are_set_as_usual() -> None:
    cls = make()
    cls.needs_ecn = True
    assert cls.needs_ecn is True


def test_params_are_listed_with_unit_and_doc() -> None:
    params = params_of(make())
    assert list(params) == ["alpha_pkts", "gain", "fast", "mode"]
    assert (params["alpha_pkts"].unit, params["alpha_pkts"].doc) == ("segments", "lower bound of the queue")
    assert params["alpha_pkts"].range() == "1 <= alpha_pkts <= 100 [segments]"


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("alpha_pkts", "5", 5),
        ("alpha_pkts", np.int64(6), 6),
        ("gain", "0.25", 0.25),
        ("gain", 1, 1.0),
        ("gain", np.float64(0.5), 0.5),
        ("fast", "no", False),
        ("fast", "TRUE", True),
        ("fast", False, False),
        ("mode", "calm", "calm"),
    ],
)
def test_value_takes_the_type_of_the_default(name: str, value: object, stored: object) -> None:
    cls = make()
    set_params(cls, {name: value})
    assert getattr(cls, name) == stored
    assert type(getattr(cls, name)) is type(stored)


@pytest.mark.parametrize(
    ("name", "value", "slug"),
    [
        ("alpha_pkts", 0, "param.out_of_range"),
        ("alpha_pkts", 101, "param.out_of_range"),
        ("alpha_pkts", 2.5, "param.wrong_type"),
        ("alpha_pkts", True, "param.wrong_type"),
        ("alpha_pkts", "many", "param.wrong_type"),
        ("gain", float("nan"), "param.out_of_range"),
        ("gain", "inf", "param.out_of_range"),
        ("gain", None, "param.wrong_type"),
        ("fast", "perhaps", "param.wrong_type"),
        ("fast", 1, "param.wrong_type"),
        ("mode", "wild", "param.out_of_range"),
        ("alpha", 3, "param.unknown"),
    ],
)
def test_wrong_value_is_refused_and_nothing_changes(name: str, value: object, slug: str) -> None:
    cls = make()
    before = {known: getattr(cls, known) for known in params_of(cls)}
    with pytest.raises(ParamError) as caught:
        set_params(cls, {"gain": 0.75, name: value} if name != "gain" else {name: value})
    assert caught.value.slug == slug
    assert caught.value.fix
    assert {known: getattr(cls, known) for known in params_of(cls)} == before


def test_all_problems_come_in_one_error() -> None:
    with pytest.raises(Several) as caught:
        set_params(make(), {"alpha": 3, "gain": 9.0})
    assert [error.slug for error in caught.value.errors] == ["param.unknown", "param.out_of_range"]
    assert "did you mean `alpha_pkts`" in str(caught.value)


def test_error_reads_as_all_errors_do() -> None:
    with pytest.raises(ParamError) as caught:
        make().alpha_pkts = 0  # type: ignore[attr-defined]
    assert str(caught.value) == (
        "param.out_of_range: Vegas.alpha_pkts cannot be 0\n"
        "  at   Vegas.alpha_pkts\n"
        "  why  it is out of range\n"
        "  fix  choose 1 <= alpha_pkts <= 100 [segments]"
    )


@pytest.mark.parametrize("value", [0, "0", "many", 1.5])
def test_an_error_names_the_class_that_was_asked(value: object) -> None:
    derived = type("Derived", (make(),), {})
    with pytest.raises(ParamError) as caught:
        set_params(derived, {"alpha_pkts": value})
    assert "Derived.alpha_pkts" in str(caught.value)
    assert "Vegas" not in str(caught.value)


@pytest.mark.parametrize("declare", [lambda: Param(5, max=3), lambda: Param("a", choices=("b",))])
def test_default_must_keep_the_rules_of_its_parameter(declare: Callable[[], object]) -> None:
    with pytest.raises(ParamError) as caught:
        declare()
    assert caught.value.slug == "param.out_of_range"


def test_each_setting_is_noted_once_with_its_target() -> None:
    cls = make()
    flow = cls()
    settings, at = Settings(), changes()
    cls.alpha_pkts = 3  # type: ignore[attr-defined]
    flow.gain = 0.1
    assert list(settings.take()) == [(at + 1, cls, "alpha_pkts"), (at + 2, flow, "gain")]
    assert not settings
    assert list(settings.take()) == []
    with pytest.raises(ParamError):
        flow.gain = "much"
    assert not settings
