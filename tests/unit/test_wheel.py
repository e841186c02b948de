"""What the wheel leaves out is wanted by nothing that it carries."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["maturin"]
LEFT_OUT = [one["path"] for one in SETTINGS["exclude"]]


def is_left_out(path: Path) -> bool:
    folders = [pattern.removesuffix("/**/*") for pattern in LEFT_OUT if pattern.endswith("/**/*")]
    return any(path.is_relative_to(folder) for folder in folders) or any(path.match(one) for one in LEFT_OUT)


def imported_at_once(path: Path) -> set[str]:
    """Return the modules that a file imports at once: not those in functions and branches."""
    found: set[str] = set()
    for one in ast.parse((ROOT / path).read_text()).body:
        if isinstance(one, ast.Import):
            found |= {alias.name for alias in one.names}
        elif isinstance(one, ast.ImportFrom) and one.module:
            found |= {one.module, *(f"{one.module}.{alias.name}" for alias in one.names)}
    return found


def test_what_the_wheel_carries_imports_nothing_that_it_lacks() -> None:
    files = [
        path.relative_to(ROOT)
        for package in SETTINGS["python-packages"]
        for path in (ROOT / package).rglob("*.py")
    ]
    lacking = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files if is_left_out(path)
    }
    assert {"experiments.papers", "experiments.demo.wifi"} <= lacking
    carried = [path for path in files if not is_left_out(path)]
    assert len(carried) > 300
    assert {str(path): found for path in carried if (found := imported_at_once(path) & lacking)} == {}
