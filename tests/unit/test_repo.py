"""The repository agrees with itself: what documents name exists, and what is said twice is said alike."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from experiments import records

ROOT = Path(__file__).parents[2]
FOLDERS = [
    "broker",
    "ccp_algs",
    "ccplane",
    "docs",
    "experiments",
    "native",
    "scripts",
    "telemetry",
    "tests",
]
SOURCES = {".py", ".pyi", ".rs", ".c", ".h", ".sh"}
MAX_LINES = 500
LONGER = {"ccplane/base/_native.pyi": "the stub of one compiled module is one file"}
"""Source file -> why it may be longer than MAX_LINES."""

REGISTRIES = [
    ".".join(parts)
    for parts in [
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("crates", "io"),
        ("static", "rust-lang", "org"),
        ("npmjs", "com"),
        ("deb", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("docker", "io"),
        ("conda", "org"),
    ]
]
"""Hosts of package registries and mirrors: which one is used is set on the machine, not here."""

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKSPACE = tomllib.loads((ROOT / "native/Cargo.toml").read_text())["workspace"]["package"]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def files() -> Iterator[Path]:
    """Yield every file of the project, nothing that was built."""
    built = {"target", "__pycache__"}
    for place in [ROOT / name for name in [*FOLDERS, ".ci"]]:
        for file in place.rglob("*"):
            if file.is_file() and not built & set(file.parts) and file.suffix not in {".so", ".pyc"}:
                yield file
    yield from (file for file in ROOT.iterdir() if file.is_file())


def relative(file: Path) -> str:
    return str(file.relative_to(ROOT))


def paths_named_in(text: str) -> set[str]:
    quoted = re.findall(r"`([^`\s]+)`", text) + re.findall(r"\]\((?!https?:|#)([^)\s#]+)", text)
    tree = re.findall(r"^([a-z_]+/)\s{2,}", text, re.MULTILINE)
    folder = re.compile(rf"({'|'.join(FOLDERS)})/(?!CongestionControl-v0)[\w./-]*")
    file = re.compile(r"(LICENSE[\w.-]*|Makefile|[\w-]+\.(md|toml))")
    return {name for name in quoted + tree if folder.fullmatch(name) or file.fullmatch(name)}


def test_the_search_for_paths_finds_them() -> None:
    text = (
        "`docs/README.md`, [that](native/Cargo.toml) or `Makefile`, not `a/b` nor `ccp run`\nccplane/   x\n"
    )
    assert paths_named_in(text) == {"docs/README.md", "native/Cargo.toml", "Makefile", "ccplane/"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_paths_named_in_documents_exist(document: Path) -> None:
    named = paths_named_in(document.read_text())
    lost = {name for name in named if not (ROOT / name).exists() and not (document.parent / name).exists()}
    assert not lost


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_make_targets_named_in_documents_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", document.read_text(), re.MULTILINE)) <= targets


def test_no_source_file_is_too_long() -> None:
    lengths = {relative(f): len(f.read_text().splitlines()) for f in files() if f.suffix in SOURCES}
    assert len(lengths) > 50  # the search found the sources
    assert {name for name, n in lengths.items() if n > MAX_LINES} == set(LONGER)


def test_no_package_registry_is_named() -> None:
    generated = {"native/Cargo.lock", "native/fuzz/Cargo.lock"}  # cargo writes its registry into every entry
    pattern = re.compile("|".join(re.escape(host) for host in REGISTRIES))
    naming = [
        relative(file)
        for file in files()
        if relative(file) not in generated and pattern.search(file.read_text(errors="replace"))
    ]
    assert naming == []


def test_versions_agree() -> None:
    version = WORKSPACE["version"]
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert metadata.version("ccplane") == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_min_python_is_the_same_everywhere() -> None:
    minimum = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    short = minimum.replace(".", "")
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{short}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == minimum
    assert f"abi3-py{short}" in (ROOT / "native/ccp-native/Cargo.toml").read_text()
    assert f"| Python | {minimum} or newer |" in (ROOT / "README.md").read_text()
    assert f"OLDEST_PYTHON={minimum.partition('.')[2]}" in (ROOT / "scripts/setup.sh").read_text()


def test_the_min_rust_is_the_same_everywhere() -> None:
    assert f"Rust {WORKSPACE['rust-version']}" in (ROOT / "README.md").read_text()


def test_all_packages_are_installed_checked_and_layered() -> None:
    packages = {name for name in FOLDERS if (ROOT / name / "__init__.py").exists()}
    assert set(PYPROJECT["tool"]["maturin"]["python-packages"]) == packages
    assert set(PYPROJECT["tool"]["mypy"]["files"]) == packages
    assert set(PYPROJECT["tool"]["importlinter"]["root_packages"]) == packages


@pytest.mark.parametrize(
    "target",
    [
        *PYPROJECT["project"]["scripts"].values(),
        *(
            value
            for group, commands in PYPROJECT["project"]["entry-points"].items()
            if group.startswith("ccplane.commands.")
            for value in commands.values()
        ),
    ],
)
def test_entry_points_lead_somewhere(target: str) -> None:
    module, _, name = target.partition(":")
    assert callable(getattr(importlib.import_module(module), name.partition(".")[0]))


def test_bpf_programs_carry_their_licence() -> None:
    sources = list(ROOT.glob("native/*/src/bpf/*"))
    assert len({source.parent for source in sources}) == 5
    for source in sources:
        assert "SPDX-License-Identifier: GPL-2.0" in source.read_text().splitlines()[0], source.name


def test_kept_results_have_one_line_a_record() -> None:
    kept = [ROOT / "docs/kernels.json", *(ROOT / "docs/results").rglob("*.json")]
    assert [file for file in kept if records.dumped(json.loads(file.read_text())) != file.read_text()] == []


def test_kept_results_name_no_path_of_the_machine_that_made_them() -> None:
    absolute = re.compile(r'"/[a-z]+/')
    files = [one for one in (ROOT / "docs/results").rglob("*.json") if absolute.search(one.read_text())]
    assert files == []
