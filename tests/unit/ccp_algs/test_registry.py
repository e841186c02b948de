import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ccp_algs
from ccp_algs import Algorithm, RegistryError, register, registry
from ccp_algs.cubic import Cubic

GOOD = """
from ccp_algs import Algorithm, register
@register("{name}")
class Mine(Algorithm):
    program = "(def)(when true (report))"
"""


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Let the registry scan anew, with one more folder of modules."""
    monkeypatch.setattr(registry, "_scanned", False)
    monkeypatch.setattr(registry, "_failures", {})
    monkeypatch.setattr(registry, "_algorithms", dict(registry._algorithms))
    monkeypatch.setattr(ccp_algs, "__path__", [*ccp_algs.__path__, str(tmp_path)])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("ccp_algs.extra_")]:
        del sys.modules[name]


def test_shipped_algorithms_are_found_by_name() -> None:
    assert {"aimd", "aimd_vec", "const", "cubic", "dctcp", "reno"} <= set(registry.names())
    assert registry.get("cubic") is Cubic
    assert Cubic.name == "cubic"
    assert registry.failures() == {}


def test_broken_module_is_listed_and_hides_no_other(fresh: Path) -> None:
    (fresh / "extra_bad.py").write_text("import nothing_of_that_name")
    (fresh / "extra_good.py").write_text(GOOD.format(name="extra"))
    assert {"extra", "cubic"} <= set(registry.names())
    assert isinstance(registry.failures()["extra_bad"], ModuleNotFoundError)
    with pytest.raises(RegistryError) as caught:
        registry.get("extra_bad")
    assert caught.value.slug == "registry.import_failed"
    assert "nothing_of_that_name" in caught.value.why
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_unknown_name_gets_suggestions_and_says_what_is_broken(fresh: Path) -> None:
    (fresh / "extra_bad.py").write_text("1 / 0")
    with pytest.raises(RegistryError) as caught:
        registry.get("cubik")
    assert caught.value.slug == "registry.unknown"
    assert "did you mean `cubic`" in caught.value.fix
    assert "extra_bad: ZeroDivisionError" in caught.value.why


def test_module_and_class_name_one_algorithm() -> None:
    assert registry.get("ccp_algs.cubic:Cubic") is Cubic


def test_file_with_several_algorithms_asks_which(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(GOOD.format(name="one") + GOOD.format(name="two").replace("Mine", "Second"))
    with pytest.raises(RegistryError) as caught:
        registry.get(str(path))
    assert caught.value.slug == "registry.several"
    assert registry.get(f"{path}:Second").name == "two"


@pytest.mark.parametrize(
    ("content", "name", "slug"),
    [
        (None, "{path}", "registry.unknown"),
        ("x = 1", "{path}", "registry.no_algorithm"),
        ("x =", "{path}", "registry.import_failed"),
        ("class Plain: pass", "{path}:Plain", "registry.not_an_algorithm"),
        ("x = 1", "{path}:Missing", "registry.unknown"),
        ("", "no_such_module:Class", "registry.import_failed"),
        ("", "ccp_algs.cubic:Cubik", "registry.unknown"),
    ],
)
def test_error_names_the_cause_when_an_algorithm_cannot_be_had(
    tmp_path: Path, content: str | None, name: str, slug: str
) -> None:
    path = tmp_path / "mine.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RegistryError) as caught:
        registry.get(name.format(path=path))
    assert caught.value.slug == slug
    assert caught.value.fix


@pytest.mark.parametrize("name", ["Vegas", "two words", "twelve_chars", "", "9lives", "früh"])
def test_name_must_fit_into_a_kernel_name(name: str) -> None:
    with pytest.raises(RegistryError) as caught:
        register(name)
    assert caught.value.slug == "registry.bad_name"


def test_name_can_be_taken_only_once() -> None:
    with pytest.raises(RegistryError) as caught:
        register("cubic")(type("Other", (Algorithm,), {}))
    assert caught.value.slug == "registry.duplicate"
    assert "ccp_algs.cubic:Cubic" in caught.value.why


def test_only_algorithms_can_be_registered() -> None:
    with pytest.raises(RegistryError) as caught:
        register("plain")(int)  # type: ignore[type-var]
    assert caught.value.slug == "registry.not_an_algorithm"


def test_entry_points_of_other_packages_are_listed(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fresh
    good = registry.metadata.EntryPoint("other", "ccp_algs.cubic:Cubic", registry.ENTRY_POINTS)
    bad = registry.metadata.EntryPoint("broken", "no_such_package:Class", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: [good, bad] if group else [])
    assert registry.get("other") is Cubic
    assert isinstance(registry.failures()["broken"], ModuleNotFoundError)


def test_a_file_that_imports_an_algorithm_first_does_not_hide_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from ccp_algs.reno import Reno\n\n\nclass Mine(Reno):\n    pass\n")
    look = f"from ccp_algs import registry; registry.get({str(file)!r}); print(registry.get('reno').__name__)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert done.stdout == "Reno\n", done.stderr
