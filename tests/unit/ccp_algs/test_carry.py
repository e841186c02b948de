"""State from one version of an algorithm to the next: carried by `on_reload`, checked by `check_reload`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from ccp_algs import ContractError, ParamError, check_algorithm
from ccp_algs.carry import carry_over
from ccp_algs.check import check_reload

HEAD = """
import enum
from collections import deque, namedtuple
from dataclasses import dataclass

import numpy as np

from ccp_algs import Algorithm, Param, VectorAlgorithm

class State(enum.Enum):
    STARTUP = "startup"
    DRAIN = "drain"

Point = namedtuple("Point", "x y")

@dataclass
class Filter:
    values: list
    def best(self):
        return max(self.values)

class Slots:
    __slots__ = ("a", "owner")

def helper():
    return "VERSION"

class Mine(Algorithm):
    program = "(def (Report (acked 0))) (when true (:= Report.acked Ack.bytes_acked) (report))"
    beta = Param(0.5, min=0.1, max=0.9)
    def on_report(self, report):
        pass
"""


@pytest.fixture
def versions() -> Iterator[Any]:
    """Make modules of versions of one source."""
    names: list[str] = []

    def make(text: str) -> Any:
        module = ModuleType(f"carry_test_{len(names)}")
        names.append(module.__name__)
        sys.modules[module.__name__] = module
        exec(text, vars(module))
        return module

    yield make
    for name in names:
        del sys.modules[name]


def test_state_is_copied_and_of_the_new_classes(versions: Any) -> None:
    before, after = versions(HEAD), versions(HEAD.replace("max(self.values)", "-1").replace("VERSION", "new"))
    old, new = before.Mine(), after.Mine()
    old.flow, new.flow = object(), object()
    old.state, old.point = before.State.DRAIN, before.Point(1, 2)
    old.filter = before.Filter([1, 2])
    old.again = [old.filter, {"deep": old.filter}]
    old.queue, old.array = before.deque([1], maxlen=3), before.np.zeros(3)
    old.slots = before.Slots()
    old.slots.a, old.slots.owner = 5, old
    old.call, old.method, old.where = before.helper, old.on_report, old.flow
    carry_over(old, new)
    assert new.state is after.State.DRAIN
    assert isinstance(new.point, after.Point)
    assert (new.filter.best(), old.filter.best()) == (-1, 2)
    assert new.again[0] is new.filter is new.again[1]["deep"]
    assert new.filter.values is not old.filter.values
    assert (list(new.queue), new.queue.maxlen) == ([1], 3)
    assert new.array is not old.array
    assert isinstance(new.slots, after.Slots)
    assert (new.slots.a, new.slots.owner) == (5, new)
    assert new.call() == "new"
    assert new.method.__self__ is new
    assert new.where is new.flow is not old.flow


def test_what_cannot_be_copied_is_shared_and_the_rest_is_not(versions: Any) -> None:
    old, new = versions(HEAD).Mine(), versions(HEAD).Mine()
    old.lock, old.values = threading.Lock(), [1]
    old.numbers = (x for x in range(3))
    carry_over(old, new)
    assert new.lock is old.lock
    assert new.numbers is old.numbers
    assert new.values == [1]
    assert new.values is not old.values


def test_class_that_is_gone_stays_what_it_was(versions: Any) -> None:
    before, after = versions(HEAD), versions(HEAD.replace("class Filter", "class Other"))
    old, new = before.Mine(), after.Mine()
    old.filter = before.Filter([1])
    carry_over(old, new)
    assert isinstance(new.filter, before.Filter)


def test_parameter_of_one_flow_is_checked(versions: Any) -> None:
    before = versions(HEAD)
    old = before.Mine()
    old.beta = 0.9
    new = versions(HEAD).Mine()
    carry_over(old, new)
    assert new.beta == 0.9
    with pytest.raises(ParamError):
        carry_over(old, versions(HEAD.replace("max=0.9", "max=0.8")).Mine())
    plain = versions(HEAD.replace("beta = Param(0.5, min=0.1, max=0.9)", "beta = 3")).Mine()
    carry_over(old, plain)
    assert plain.beta == 3


# The trial


def test_successor_that_bears_everything_passes(versions: Any) -> None:
    check_reload(versions(HEAD).Mine, versions(HEAD).Mine)


def test_successor_without_the_callback_is_found(versions: Any) -> None:
    gone = HEAD.replace("    def on_report(self, report):\n        pass\n", "")
    with pytest.raises(ContractError) as caught:
        check_reload(versions(HEAD).Mine, versions(gone).Mine)
    assert caught.value.slug == "contract.missing_callback"


def test_callback_that_none_calls_is_found(versions: Any) -> None:
    with pytest.raises(ContractError) as caught:
        check_algorithm(versions(HEAD.replace("on_report", "on_reprot")).Mine)
    assert caught.value.slug == "contract.unknown_callback"
    assert "`on_report`" in caught.value.fix


def test_state_that_the_new_version_does_not_understand_is_found(versions: Any) -> None:
    before = HEAD + "        self.n = 'text'\n"
    after = HEAD + "        self.n = getattr(self, 'n', 0) + 1\n"
    with pytest.raises(TypeError):
        check_reload(versions(before).Mine, versions(after).Mine)


def test_old_version_that_fails_itself_does_not_count(versions: Any) -> None:
    check_reload(versions(HEAD + "        raise ValueError\n").Mine, versions(HEAD).Mine)
