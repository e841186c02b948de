"""Parameters of algorithms: declared once, checked on every assignment, and changeable while flows run.

    class Vegas(Algorithm):
        alpha_pkts = Param(2, min=1, max=100, unit="segments", doc="lower bound of the queue")

    Vegas.alpha_pkts = 3          # all flows, running ones included
    vegas.alpha_pkts = 4          # one flow
    set_params(Vegas, {"alpha_pkts": "5"})   # by name, from text, as the command line and notebooks do

`Vegas.alpha_pkts` and `vegas.alpha_pkts` read the current value. A parameter has the type of its default:
bool, int, float or str.
"""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from ccplane.base.errors import Collector, ParamError
from ccplane.base.names import close_names

T = TypeVar("T", bool, int, float, str)

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})

_changes = 0


def changes() -> int:
    """Return the number of the last change of any parameter in this process."""
    return _changes


class Settings:
    """Collects the changes of parameters in this process, made by any thread since its creation."""

    def __init__(self) -> None:
        """Start collecting."""
        self._settings: deque[tuple[int, object, str]] = deque()
        _all_settings.add(self)

    def __bool__(self) -> bool:
        """Return whether there are changes to take."""
        return bool(self._settings)

    def note(self, change: int, target: object, name: str) -> None:
        """Record a change."""
        self._settings.append((change, target, name))

    def take(self) -> Iterator[tuple[int, object, str]]:
        """Yield each change once: its number, the instance or class changed, the parameter's name."""
        while self._settings:
            yield self._settings.popleft()


_all_settings: WeakSet[Settings] = WeakSet()


class Param(Generic[T]):
    """One parameter of an algorithm class.

    Attributes:
        name: Name of the class attribute.
        default: Initial value; its type is the parameter's type.
        min: Minimum, inclusive; None: no bound.
        max: Maximum, inclusive; None: no bound.
        choices: The only values allowed; empty: any.
        unit: Unit of the value, empty if dimensionless.
        doc: One phrase that says what it sets.
    """

    def __init__(
        self,
        default: T,
        *,
        min: T | None = None,
        max: T | None = None,
        choices: tuple[T, ...] = (),
        unit: str = "",
        doc: str = "",
    ) -> None:
        """Declare the parameter.

        Raises:
            ParamError: `param.wrong_type` or `param.out_of_range`, if the default violates the bounds or
            choices.
        """
        self.name = "?"
        self.owner = "?"
        self.default: T = default
        self.min: T | None = min
        self.max: T | None = max
        self.choices: tuple[T, ...] = choices
        self.unit = unit
        self.doc = doc
        self._by_class: dict[type, T] = {}
        self.check(default)

    def __set_name__(self, owner: type, name: str) -> None:
        """Take the name of the class attribute."""
        self.name = name
        self.owner = owner.__name__

    def __get__(self, instance: object | None, owner: type) -> T:
        """Return the current value for this instance, or for the class."""
        if instance is not None:
            own = instance.__dict__.get(self.name, self)
            if own is not self:
                return own  # type: ignore[no-any-return]
        if self._by_class:
            for cls in owner.__mro__:
                if cls in self._by_class:
                    return self._by_class[cls]
        return self.default

    def __set__(self, instance: object, value: T) -> None:
        """Set it for one flow.

        Raises:
            ParamError: As for `check`.
        """
        self.put(instance, self.check(value, type(instance)))

    def is_set(self, cls: type) -> bool:
        """Return whether the parameter was set for `cls` or one of its base classes."""
        return any(base in self._by_class for base in cls.__mro__)

    def set_for_class(self, cls: type, value: T) -> None:
        """Set the parameter for `cls` and its subclasses, except where they or flows have their own value.

        Raises:
            ParamError: As for `check`.
        """
        self.put(cls, self.check(value, cls))

    def put(self, target: object, checked: T) -> None:
        """Set the parameter for a class or an instance, to a value returned by `check` or `parse`."""
        if isinstance(target, type):
            self._by_class[target] = checked
        else:
            target.__dict__[self.name] = checked
        self._note(target)

    def check(self, value: object, cls: type | None = None) -> T:
        """Return `value` in the parameter's type.

        Args:
            value: The value.
            cls: Class to name in the error, if it is a subclass of the one that declares the parameter.

        Raises:
            ParamError: `param.wrong_type` if it has another type (only an int is accepted for a float),
                `param.out_of_range` if it is outside the bounds, not among the choices, or not finite.
        """
        checked = self._typed(value, cls)
        if isinstance(checked, float) and not math.isfinite(checked):
            raise self._refuse(cls, "param.out_of_range", value, "it is not a finite number")
        if self.choices and checked not in self.choices:
            known = ", ".join(str(choice) for choice in self.choices)
            raise self._refuse(
                cls, "param.out_of_range", value, "it is not among the choices", f"choose from {known}"
            )
        if (self.min is not None and checked < self.min) or (self.max is not None and checked > self.max):
            raise self._refuse(
                cls, "param.out_of_range", value, "it is out of range", f"choose {self.range()}"
            )
        return checked

    def parse(self, text: str, cls: type | None = None) -> T:
        """Parse `text` as given on the command line; `cls` as for `check`.

        Raises:
            ParamError: `param.wrong_type` if the text is not a value of the type, else as for `check`.
        """
        kind = type(self.default)
        try:
            if kind is bool:
                if text.lower() not in _TRUE | _FALSE:
                    raise ValueError
                return self.check(text.lower() in _TRUE, cls)
            return self.check(kind(text), cls)
        except ValueError:
            fix = "write true or false" if kind is bool else f"write a value such as {self.default}"
            why = f"it is not {_article(kind)}"
            raise self._refuse(cls, "param.wrong_type", text, why, fix) from None

    def range(self) -> str:
        """Return the bounds as text, for example `0.1 <= beta <= 1.0`."""
        low = "" if self.min is None else f"{self.min} <= "
        high = "" if self.max is None else f" <= {self.max}"
        return f"{low}{self.name}{high}" + (f" [{self.unit}]" if self.unit else "")

    def _note(self, target: object) -> None:
        global _changes
        _changes += 1
        for settings in list(_all_settings):
            settings.note(_changes, target, self.name)

    def _typed(self, value: object, cls: type | None) -> T:
        kind = type(self.default)
        typed: Any = value
        if kind is int and not isinstance(value, bool) and hasattr(value, "__index__"):
            typed = operator.index(value)
        elif kind is float and not isinstance(value, bool | str) and hasattr(value, "__float__"):
            typed = float(value)
        elif not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            why = f"expected {_article(kind)}, got {_article(type(value))}"
            raise self._refuse(cls, "param.wrong_type", value, why)
        return typed  # type: ignore[no-any-return]

    def _refuse(self, cls: type | None, slug: str, value: object, why: str, fix: str = "") -> ParamError:
        name = f"{self.owner if cls is None else cls.__name__}.{self.name}"
        return ParamError(
            slug,
            f"{name} cannot be {value!r}",
            where=name,
            why=why,
            fix=fix or f"its default is {self.default!r}" + (f" {self.unit}" if self.unit else ""),
        )


def _article(kind: type) -> str:
    return ("an " if kind.__name__[0] in "aeiou" else "a ") + kind.__name__


class ParamMeta(type):
    """Metaclass that makes `Class.param = value` set a parameter for all flows instead of replacing it."""

    def __setattr__(cls, name: str, value: object) -> None:
        """Set a parameter class-wide; everything else as usual."""
        param = find_param(cls, name)
        if param is None or isinstance(value, Param):
            super().__setattr__(name, value)
        else:
            param.set_for_class(cls, value)


def find_param(cls: type, name: str) -> Param[Any] | None:
    """Return the parameter `name` of a class or its bases; None if there is none."""
    for base in cls.__mro__:
        if name in base.__dict__:
            found = base.__dict__[name]
            return found if isinstance(found, Param) else None
    return None


def params_of(cls: type) -> dict[str, Param[Any]]:
    """Return all parameters of a class by name, inherited ones first."""
    names = [name for base in reversed(cls.__mro__) for name in base.__dict__]
    found = {name: find_param(cls, name) for name in names}
    return {name: param for name, param in found.items() if param is not None}


def set_params(target: object, values: Mapping[str, object]) -> None:
    """Set parameters by name: for all flows if `target` is a class, for one flow if it is an instance.

    Args:
        target: Algorithm class or instance.
        values: Value by parameter name; text is parsed. If one is wrong, none is set.

    Raises:
        ParamError: `param.unknown`, `param.wrong_type` or `param.out_of_range`.
        Several: If several are wrong.
    """
    cls = target if isinstance(target, type) else type(target)
    for name, value in checked_params(cls, values).items():
        setattr(target, name, value)


def checked_params(cls: type, values: Mapping[str, object]) -> dict[str, object]:
    """Return values converted to the types of a class's parameters.

    Args:
        cls: Algorithm class.
        values: Value by parameter name; text is parsed.

    Raises:
        ParamError: As for `set_params`.
        Several: As for `set_params`.
    """
    known = params_of(cls)
    checked: dict[str, object] = {}
    problems = Collector()
    for name, value in values.items():
        with problems.check():
            if name not in known:
                raise ParamError(
                    "param.unknown",
                    f"{cls.__name__} has no parameter `{name}`",
                    where=f"{cls.__module__}.{cls.__qualname__}",
                    fix=close_names(name, known, "parameter"),
                )
            param = known[name]
            is_text = isinstance(value, str) and not isinstance(param.default, str)
            checked[name] = param.parse(str(value), cls) if is_text else param.check(value, cls)
    problems.finish()
    return checked
