from __future__ import annotations

import ast
import inspect
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ccplane.agent.errors
from ccplane.base import errors
from ccplane.base.errors import CcpError, Collector, LangError, Several
from ccplane.base.names import close_names

ROOT = Path(__file__).parents[3]
CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, CcpError) and value is not Several
}


SLUGS = {"ccplane/agent": ccplane.agent.errors.SLUGS, "ccplane/base": errors.SLUGS}
"""Package -> the slugs that it raises with these classes."""
ALL = sorted((package, slug) for package, slugs in SLUGS.items() for slug in slugs)


def raised_slugs(package: str) -> set[str]:
    """Slugs passed to constructors of errors in a package's sources."""
    found = set()
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in CLASSES
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                found.add(str(node.args[0].value))
    return found


@pytest.mark.parametrize("package", SLUGS)
def test_list_of_slugs_is_what_the_sources_raise(package: str) -> None:
    assert raised_slugs(package) == set(SLUGS[package])


@pytest.mark.parametrize(("package", "slug"), ALL)
def test_every_slug_has_a_test(package: str, slug: str) -> None:
    here = Path(__file__)
    tests = [path for path in (ROOT / "tests" / "unit").rglob("test_*.py") if path != here]
    assert any(f'"{slug}"' in path.read_text() for path in tests), f"no test names {slug}"


@pytest.mark.parametrize(("package", "slug"), ALL)
def test_slugs_are_area_and_thing_when_listed(package: str, slug: str) -> None:
    area, dot, thing = slug.partition(".")
    assert dot
    assert area.isidentifier()
    assert thing.isidentifier()
    assert SLUGS[package][slug]


def test_error_says_what_where_why_and_fix() -> None:
    error = LangError(
        "lang.unknown_field",
        "no field `Flow.rtt_sample_ms`",
        'ccp_algs/vegas.py:41:23, program "default", line 6',
        "this datapath provides Flow.rtt_sample_us [us]",
        "did you mean `Flow.rtt_sample_us`?",
    )
    assert str(error) == (
        "lang.unknown_field: no field `Flow.rtt_sample_ms`\n"
        '  at   ccp_algs/vegas.py:41:23, program "default", line 6\n'
        "  why  this datapath provides Flow.rtt_sample_us [us]\n"
        "  fix  did you mean `Flow.rtt_sample_us`?"
    )


def test_parts_are_left_out_when_empty_and_indented_when_long() -> None:
    assert str(CcpError("a.b", "text")) == "a.b: text"
    assert str(CcpError("a.b", "text", fix="one\ntwo")) == "a.b: text\n  fix  one\n       two"


@pytest.mark.parametrize("cls", CLASSES.values(), ids=lambda cls: cls.__name__)
def test_every_error_survives_pickling_with_all_parts(cls: type[CcpError]) -> None:
    error = cls("a.b", "what", "where", "why", "fix")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
    assert again.as_dict() == {"slug": "a.b", "message": "what", "where": "where", "why": "why", "fix": "fix"}


def test_several_shows_and_pickles_all_problems() -> None:
    both = pickle.loads(pickle.dumps(Several([CcpError("a.b", "first"), CcpError("c.d", "second")])))
    assert str(both) == "a.b: first\nc.d: second"
    assert both.slug == "a.b"


def test_collector_raises_nothing_when_nothing_is_wrong() -> None:
    problems = Collector()
    with problems.check():
        pass
    problems.finish()
    assert problems.errors == []


def test_collector_raises_the_problem_itself_when_it_is_alone() -> None:
    problems = Collector()
    error = CcpError("a.b", "alone")
    with problems.check():
        raise error
    with pytest.raises(CcpError) as caught:
        problems.finish()
    assert caught.value is error


def test_collector_flattens_problems_of_parts() -> None:
    inner = Collector()
    for slug in ("a.a", "b.b"):
        with inner.check():
            raise CcpError(slug, "inner")
    outer = Collector()
    with outer.check():
        inner.finish()
    with outer.check():
        raise CcpError("c.c", "outer")
    with pytest.raises(Several) as caught:
        outer.finish()
    assert [error.slug for error in caught.value.errors] == ["a.a", "b.b", "c.c"]


def test_collector_lets_other_exceptions_through() -> None:
    with pytest.raises(ZeroDivisionError), Collector().check():
        raise ZeroDivisionError


def test_close_names_suggests_when_near_and_lists_when_not() -> None:
    assert close_names("cubik", ["cubic", "reno"]) == "did you mean `cubic`?"
    assert close_names("xyzzy", ["cubic", "reno"], "algorithm") == "known algorithms: cubic, reno"
    assert close_names("x", [], "algorithm") == "no algorithm is available"


@given(st.text(), st.lists(st.text(), max_size=40))
def test_close_names_always_says_something(name: str, known: list[str]) -> None:
    assert close_names(name, known)
