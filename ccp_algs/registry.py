"""Algorithms by name.

    @register("vegas")
    class Vegas(Algorithm): ...

    get("vegas"), get("my/vegas.py"), get("my/vegas.py:Vegas"), get("package.module:Vegas")

Names come from the modules of `ccp_algs`, which are imported at the first look-up, and from installed
packages with entry points in the group `ccplane.algorithms`. A module whose import fails is listed with its
error; the others remain available.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from ccp_algs import siblings
from ccp_algs.api import Algorithm, AnyAlgorithm, VectorAlgorithm
from ccp_algs.errors import RegistryError
from ccplane.base.names import close_names

ENTRY_POINTS: Final = "ccplane.algorithms"

Cls = TypeVar("Cls", bound=AnyAlgorithm)

_algorithms: dict[str, AnyAlgorithm] = {}
_failures: dict[str, Exception] = {}
_scanned = False


def register(name: str) -> Callable[[Cls], Cls]:
    """Return a class decorator that gives an algorithm its name.

    Args:
        name: Lower-case identifier of at most 11 characters: sockets choose the algorithm as `ccp.NAME`, and
            kernel names hold 15 characters.

    Raises:
        RegistryError: `registry.bad_name`, `registry.not_an_algorithm` or `registry.duplicate`.
    """
    if not (name.isidentifier() and name == name.lower() and len(name) <= 11 and name.isascii()):
        raise RegistryError(
            "registry.bad_name",
            f"an algorithm cannot be called {name!r}",
            why="sockets choose an algorithm as `ccp.NAME`, and kernel names have at most 15 characters",
            fix="use at most 11 lower-case letters, digits and underscores, the first a letter",
        )

    def decorate(cls: Cls) -> Cls:
        _check_class(cls, cls.__qualname__)
        # A file may use any name: it is looked up by path, and does not replace the algorithm of that name.
        if siblings.package_of(cls) is None:
            known = _algorithms.get(name)
            if known is not None and _place(known) != _place(cls):
                raise RegistryError(
                    "registry.duplicate",
                    f"two algorithms are called `{name}`",
                    where=_place(cls),
                    why=f"{_place(known)} already has this name",
                    fix="choose another name",
                )
            _algorithms[name] = cls
        cls.name = name
        return cls

    return decorate


def names() -> list[str]:
    """Return the names of all available algorithms, sorted."""
    _scan()
    return sorted(_algorithms)


def failures() -> dict[str, Exception]:
    """Return the modules and entry points whose import failed, with the exception of each."""
    _scan()
    return dict(_failures)


def get(name: str) -> AnyAlgorithm:
    """Return an algorithm class.

    Args:
        name: A registered name, a `.py` file (with `:Class` if it has several), or `module:Class`.

    Raises:
        RegistryError: `registry.unknown` if there is none of that name, `registry.import_failed` if the
        import of its
            module fails, `registry.no_algorithm` or `registry.several` if a file does not have exactly one,
            `registry.not_an_algorithm` if the class is not an algorithm.
    """
    target, _, attribute = name.partition(":")
    if target.endswith(".py"):
        return _from_file(Path(target), attribute)
    if attribute:
        return _from_module(target, attribute)
    _scan()
    if name in _algorithms:
        return _algorithms[name]
    if name in _failures:
        raise RegistryError(
            "registry.import_failed",
            f"`{name}` cannot be imported",
            where=name,
            why=_short(_failures[name]),
            fix="fix the module; the cause is attached",
        ) from _failures[name]
    broken = "; ".join(f"{module}: {_short(error)}" for module, error in _failures.items())
    raise RegistryError(
        "registry.unknown",
        f"there is no algorithm `{name}`",
        why=f"these modules cannot be imported: {broken}" if broken else "",
        fix=close_names(name, _algorithms, "algorithm") + "\nor give a file: path/to/algorithm.py",
    )


def _scan() -> None:
    global _scanned
    if _scanned:
        return
    _scanned = True
    for module in pkgutil.iter_modules(sys.modules["ccp_algs"].__path__):
        try:
            importlib.import_module(f"ccp_algs.{module.name}")
        except Exception as error:  # a failing import must not hide the other modules
            _failures[module.name] = error
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        try:
            cls = _check_class(entry.load(), entry.name)
            _algorithms.setdefault(entry.name, cls)
        except Exception as error:
            _failures[entry.name] = error


def _from_file(path: Path, attribute: str) -> AnyAlgorithm:
    if not path.is_file():
        raise RegistryError(
            "registry.unknown",
            f"there is no file {path}",
            where=str(path),
            fix=f"check the path; known algorithms: {', '.join(names())}",
        )
    module = _load_file(path)
    own = algorithms_in(module)
    if attribute:
        return _attribute(module, attribute, str(path))
    if len(own) != 1:
        listed = ", ".join(cls.__name__ for cls in own)
        raise RegistryError(
            "registry.several" if own else "registry.no_algorithm",
            f"{path} defines {len(own)} algorithms" + (f": {listed}" if own else ""),
            where=str(path),
            fix=f"choose one of them, for example {path}:{own[0].__name__}"
            if own
            else "derive a class from ccp_algs.Algorithm",
        )
    return own[0]


def algorithms_in(module: ModuleType) -> list[AnyAlgorithm]:
    """Return the algorithms that a module defines, without imported ones."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Algorithm | VectorAlgorithm)
        and value.__module__ == module.__name__
    ]


def _load_file(path: Path) -> ModuleType:
    """Import a file and its local modules again, under a package name that depends on the path."""
    place = siblings.place_of(path)
    stem, digest = re.sub(r"\W", "_", place.stem), hashlib.sha256(str(place).encode()).hexdigest()
    package = siblings.Package(f"ccp_algs_file_{stem}_{digest[:8]}", str(place))
    try:
        with siblings.replacing(package.name):
            return package.load(importlib.util.decode_source(place.read_bytes()))
    except Exception as error:
        raise RegistryError(
            "registry.import_failed",
            f"{path} cannot be imported",
            where=str(path),
            why=_short(error),
            fix="fix the file; the cause is attached",
        ) from error


def _from_module(module_name: str, attribute: str) -> AnyAlgorithm:
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise RegistryError(
            "registry.import_failed",
            f"module `{module_name}` cannot be imported",
            where=module_name,
            why=_short(error),
            fix="check the name, and that the module is on PYTHONPATH",
        ) from error
    return _attribute(module, attribute, module_name)


def _attribute(module: ModuleType, attribute: str, where: str) -> AnyAlgorithm:
    found = vars(module).get(attribute)
    if found is None:
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise RegistryError(
            "registry.unknown",
            f"{where} has no `{attribute}`",
            where=where,
            fix=close_names(attribute, classes, "class"),
        )
    return _check_class(found, f"{where}:{attribute}")


def _check_class(cls: object, where: str) -> AnyAlgorithm:
    if isinstance(cls, type) and issubclass(cls, Algorithm | VectorAlgorithm):
        return cls
    raise RegistryError(
        "registry.not_an_algorithm",
        f"{cls!r} is not an algorithm",
        where=where,
        why="the class is not derived from Algorithm or VectorAlgorithm",
        fix="derive the class, `class Name(Algorithm)`, with `from ccp_algs import Algorithm`",
    )


def _place(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
