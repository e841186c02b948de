from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from ccp_algs import RegistryError, registry, siblings
from ccp_algs.siblings import Package

MINE = """
import my_lib
from my_lib import LIMIT, Filter
from ccp_algs import Algorithm

class Mine(Algorithm):
    program = "(def (Report (x 0))) (when true (report))"
    limit = LIMIT

    def later(self):
        import my_later
        return my_later.VALUE
"""


def write(directory: Path, **files: str) -> None:
    for name, text in files.items():
        place = directory / (name.replace("__in__", "/") + ".py")
        place.parent.mkdir(exist_ok=True)
        place.write_text(textwrap.dedent(text))


def loaded(directory: Path, text: str, name: str = "test_alongside_one") -> Any:
    file = directory / "mine.py"
    return Package(name, str(file)).load(textwrap.dedent(text))


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    for package in list(siblings._packages.values()):
        if package.name.startswith("test_probe_timeline"):
            package.drop()


def test_modules_alongside_the_file_are_its_own(tmp_path: Path) -> None:
    write(tmp_path, my_lib="LIMIT = 1\nclass Filter: pass")
    one = loaded(tmp_path, MINE)
    write(tmp_path, my_lib="LIMIT = 2\nclass Filter: pass")
    two = loaded(tmp_path, MINE, "test_alongside_two")
    assert (one.Mine.limit, two.Mine.limit) == (1, 2)
    assert (one.my_lib.LIMIT, two.my_lib.LIMIT) == (1, 2)
    assert one.Filter is not two.Filter
    assert "my_lib" not in sys.modules


def test_text_of_the_same_length_and_second_is_read_again(tmp_path: Path) -> None:
    """Python's own cache of compiled files would take it for unchanged."""
    write(tmp_path, my_lib="LIMIT = 1\nFilter = 0")
    stamp = (tmp_path / "my_lib.py").stat().st_mtime_ns
    assert loaded(tmp_path, MINE).LIMIT == 1
    write(tmp_path, my_lib="LIMIT = 2\nFilter = 0")
    os.utime(tmp_path / "my_lib.py", ns=(stamp, stamp))
    assert loaded(tmp_path, MINE, "test_alongside_two").LIMIT == 2
    assert not (tmp_path / "__pycache__").exists()


def test_import_in_a_callback_gets_the_module_of_its_version(tmp_path: Path) -> None:
    write(tmp_path, my_lib="LIMIT = 1\nFilter = 0", my_later="VALUE = 5")
    one = loaded(tmp_path, MINE)
    two = loaded(tmp_path, MINE, "test_alongside_two")
    assert one.Mine().later() == 5
    write(tmp_path, my_later="VALUE = 6")
    assert (one.Mine().later(), two.Mine().later()) == (5, 6)
    assert str(tmp_path / "my_later.py") in siblings.package_of(one.Mine).seen  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "statement",
    [
        "from pkg.deep import VALUE",
        "import pkg.deep\nVALUE = pkg.deep.VALUE",
        "import pkg.deep as d\nVALUE = d.VALUE",
        "from pkg import deep\nVALUE = deep.VALUE",
        "from pkg import *",
        "from .pkg.deep import VALUE",
        "from . import pkg\nVALUE = pkg.again",
    ],
)
def test_packages_and_all_forms_of_import_work(tmp_path: Path, statement: str) -> None:
    write(
        tmp_path,
        pkg__in____init__="from .deep import VALUE\nfrom .other import again",
        pkg__in__deep="VALUE = 7",
        pkg__in__other="import pkg.deep\nagain = pkg.deep.VALUE",
    )
    assert loaded(tmp_path, statement).VALUE == 7
    assert "pkg" not in sys.modules


def test_library_and_ccplane_are_never_taken_from_the_directory(tmp_path: Path) -> None:
    write(tmp_path, queue="1 / 0", ccp_algs="1 / 0", agent="1 / 0")
    module = loaded(tmp_path, "import queue, ccp_algs, ccplane.agent\nimport numpy.linalg")
    assert module.queue is sys.modules["queue"]
    assert module.ccp_algs is sys.modules["ccp_algs"]
    assert module.numpy.linalg is sys.modules["numpy.linalg"]


def test_modules_import_each_other_and_the_algorithm(tmp_path: Path) -> None:
    write(
        tmp_path,
        left="import right, mine\ndef f(): return right.g() + mine.X",
        right="import left\ndef g(): return 1",
    )
    assert loaded(tmp_path, "import left\nX = 2\nY = left.f()").Y == 3


def test_what_was_looked_for_is_known_also_if_it_was_not_there(tmp_path: Path) -> None:
    package = Package("test_alongside_one", str(tmp_path / "mine.py"))
    with pytest.raises(ModuleNotFoundError):
        package.load("import nowhere_to_be_found")
    assert package.seen[str(tmp_path / "nowhere_to_be_found.py")] is None
    assert package.seen[str(tmp_path / "mine.py")] == siblings.sha256("import nowhere_to_be_found")
    assert not [name for name in sys.modules if name.startswith("test_probe_timeline")]


def test_text_without_a_file_has_nothing_alongside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, my_lib="LIMIT = 1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModuleNotFoundError):
        Package("test_alongside_one", "<cell>").load("import my_lib")


def test_registry_loads_a_file_with_what_is_alongside_it_afresh(tmp_path: Path) -> None:
    write(tmp_path, mine=MINE, my_lib="LIMIT = 1\nclass Filter: pass")
    file = tmp_path / "mine.py"
    one: Any = registry.get(str(file))
    write(tmp_path, my_lib="LIMIT = 2\nclass Filter: pass")
    two: Any = registry.get(str(file))
    assert (one.limit, two.limit) == (1, 2)
    write(tmp_path, my_lib="LIMIT = ")
    with pytest.raises(RegistryError) as caught:
        registry.get(str(file))
    assert isinstance(caught.value.__cause__, SyntaxError)
    assert sys.modules[two.__module__].Mine is two, "the version before is back"


def test_algorithm_of_a_name_that_is_taken_may_stand_alongside(tmp_path: Path) -> None:
    other = 'from ccp_algs import Algorithm, register\n@register("cubic")\nclass Other(Algorithm): pass'
    write(tmp_path, other=other)
    before = registry.get("cubic")
    assert loaded(tmp_path, "from other import Other\nclass Mine(Other): program = ''").Mine.name == "cubic"
    assert registry.get("cubic") is before
