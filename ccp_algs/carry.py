"""Carry an algorithm's state from an instance of the old version to one of the new version.

The state is copied, so that the old instance is unchanged if the new version turns out to be unusable.
Objects of a class in the edited module, or in a module imported from its directory, become objects of the
class of the same name in the new version, so the new code applies to them immediately. Functions, locks,
files and other objects that cannot be copied are shared.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Mapping
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from ccp_algs import siblings
from ccp_algs.params import Param, params_of

NOT_CARRIED: Final = frozenset({"flow"})
"""Attributes that belong to the instance, not to its state."""

_PLAIN: Final = frozenset({bool, int, float, complex, str, bytes, type(None)})
"""Types whose values need no copy."""

_NAMED: Final = (type, FunctionType, BuiltinFunctionType, ModuleType)


def carry_over(old: object, new: object) -> None:
    """Copy to `new` the attributes that `old` has; attributes that only `new` has are left unchanged.

    A parameter set for this flow alone stays set if the new version still has it. An attribute that was plain
    in one version and is a parameter in the other is skipped.

    Args:
        old: Instance of the old version.
        new: Instance of the new version, after `on_create`.

    Raises:
        ParamError: If the new version rejects the value of a parameter.
    """
    classes: tuple[Any, Any] = (type(old), type(new))
    before, after = map(_parameters, classes)
    state, to_copy = {}, {}
    for name, value in vars(old).items():
        if name in NOT_CARRIED or (name in before) != (name in after):
            continue
        if name in after:
            state[name] = after[name].check(value)
        elif type(value) in _PLAIN:
            state[name] = value
        else:
            to_copy[name] = value
    if to_copy:
        state.update(_copied(to_copy, old, new))
    vars(new).update(state)


@lru_cache(maxsize=4)
def _parameters(cls: type) -> dict[str, Param[Any]]:
    """Return the parameters of a class; cached, since every flow asks."""
    return params_of(cls)


def _copied(state: dict[str, Any], old: object, new: object) -> dict[str, Any]:
    try:
        return dict(_Copier(old, new).copy(state))
    except Exception:  # some attribute cannot be copied: copy one by one
        return {name: _copied_or_shared(value, old, new) for name, value in state.items()}


def _copied_or_shared(value: Any, old: object, new: object) -> Any:
    try:
        return _Copier(old, new).copy(value)
    except Exception:
        return value


class _Copier:
    """Copies objects by pickling them; named things (classes, functions) are passed by reference."""

    def __init__(self, old: object, new: object) -> None:
        self.modules = {type(old).__module__: type(new).__module__}
        self.packages = [siblings.package_of(type(one)) for one in (old, new)]
        self.named: list[Any] = []
        # References back to the old instance and its flow become references to the new ones.
        self.instead = {id(old): new}
        if hasattr(old, "flow") and hasattr(new, "flow"):
            self.instead[id(old.flow)] = new.flow
        if type(old).__qualname__ != type(new).__qualname__:
            self.instead[id(type(old))] = type(new)

    def copy(self, value: Any) -> Any:
        """Return a copy; raises what pickling raises."""
        written = io.BytesIO()
        _Writer(written, self).dump(value)
        written.seek(0)
        return _Reader(written, self).load()

    def keep(self, thing: Any) -> int | None:
        """Return the number of a thing that is passed by reference, None if it is to be copied."""
        if not (isinstance(thing, _NAMED) or id(thing) in self.instead):
            return None
        self.named.append(thing)
        return len(self.named) - 1

    def give(self, number: int) -> Any:
        """Return the new version's counterpart of a thing passed by reference."""
        thing = self.named[number]
        if id(thing) in self.instead:
            return self.instead[id(thing)]
        if isinstance(thing, type | FunctionType) and (module := self._after(thing.__module__)):
            found: Any = vars(module)
            for part in thing.__qualname__.split("."):
                found = found.get(part) if isinstance(found, Mapping) else getattr(found, part, None)
            if isinstance(found, type | FunctionType) and isinstance(found, type) == isinstance(thing, type):
                return found
        return thing

    def _after(self, name: str | None) -> ModuleType | None:
        """Return the new version's module that replaces a module of the old version."""
        before, after = self.packages
        if name is None:
            return None
        if name not in self.modules and before is not None and after is not None:
            package, _, inside = name.partition(".")
            if package == before.name:
                return sys.modules.get(f"{after.name}.{inside}")
        return sys.modules.get(self.modules.get(name, ""))


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, copier: _Copier) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._copier = copier

    def persistent_id(self, obj: Any) -> Any:
        return self._copier.keep(obj)


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, copier: _Copier) -> None:
        super().__init__(file)
        self._copier = copier

    def persistent_load(self, pid: Any) -> Any:
        return self._copier.give(pid)
