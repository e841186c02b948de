"""Import hook of `import ccplane`: detects files that shadow its packages, and registers with Gymnasium.

Python first searches the directory of a script or notebook, where users may have an `experiments/` or a
`telemetry.py`. A finder that precedes all other finders compares what Python would import with ccplane's
packages.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PACKAGES = ("broker", "ccp_algs", "experiments", "telemetry")
"""Top-level packages of ccplane."""

_GYMNASIUM = "gymnasium.envs.registration"


def install(register: Callable[[], None]) -> None:
    """Install the import hook.

    Raises:
        LoadError: `load.shadowed`, if a third-party package with such a name is already imported.
    """
    if any(isinstance(one, _Finder) for one in sys.meta_path):
        return
    finder = _Finder(register)
    for name in PACKAGES:
        if (module := sys.modules.get(name)) is not None and (spec := module.__spec__) is not None:
            finder.check(name, spec)
    sys.meta_path.insert(0, finder)
    if _GYMNASIUM in sys.modules:
        register()


class _Finder:
    """Handles only the guarded names; leaves all other names to the other finders."""

    def __init__(self, register: Callable[[], None]) -> None:
        self._register = register
        folder = __file__
        for _ in range(3):  # ccplane/base/guard.py
            folder = folder.rpartition("/")[0]
        self._folder = folder
        self._is_busy = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if self._is_busy or not (fullname in PACKAGES or fullname == _GYMNASIUM):
            return None
        self._is_busy = True
        try:
            import importlib.util

            spec = importlib.util.find_spec(fullname)
        finally:
            self._is_busy = False
        if fullname == _GYMNASIUM:
            return None if spec is None else _then(spec, self._register)
        if spec is None:
            from importlib.machinery import PathFinder

            return PathFinder.find_spec(fullname, [self._folder])
        self.check(fullname, spec)
        return spec

    def check(self, name: str, spec: ModuleSpec) -> None:
        """Refuse a package from another directory, if ccplane's exists.

        Raises:
            LoadError: `load.shadowed`.
        """
        import os

        places = list(spec.submodule_search_locations or ())
        found = spec.origin if spec.has_location and spec.origin else (places or ["?"])[0]
        own = os.path.join(self._folder, name)
        if own in places or not os.path.isdir(own):
            return
        if any(os.path.exists(one) and os.path.samefile(one, own) for one in places):
            return
        from ccplane.base.errors import LoadError

        foreign = os.path.dirname(found) if os.path.basename(found) == "__init__.py" else found
        raise LoadError(
            "load.shadowed",
            f"`import {name}` finds {foreign}, not ccplane's package",
            where=foreign,
            why=f"ccplane's package is {own}; Python searches the directory of {foreign} first",
            fix=f"rename {foreign}, or start Python in another directory",
        )


def _then(spec: ModuleSpec, follow: Callable[[], None]) -> ModuleSpec:
    """Call `follow` after the module is executed."""
    if (loader := spec.loader) is not None:
        execute = loader.exec_module

        def both(module: ModuleType) -> None:
            execute(module)
            follow()

        loader.exec_module = both  # type: ignore[method-assign]
    return spec
