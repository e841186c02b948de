"""Whatever a parser reads, nothing but a `CcpError` leaves it; telemetry has its own test, test_fuzz.py."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccplane.agent.control import read_request
from ccplane.agent.known_good import KnownGood
from ccplane.agent.runfile import run_file, running
from ccplane.base.errors import CcpError
from experiments.scenario import Scenario
from telemetry.inband.device import Before
from telemetry.inband.nodes import read_nodes
from telemetry.putback import left_behind
from tests.unit.agent.fakes import FakeProgram

SCENARIOS = sorted((Path(__file__).parents[2] / "experiments/scenarios").glob("*.yaml"))
NASTY = [
    b"",
    b"\xff\xfe",
    b'"\xff"',
    b'{"version": 1, "id": 1, "ask": {"do": "\xed\xa0\x80"}}',
    b"[" * 5000,
    b'{"a":' * 5000,
    b"9" * 5000,
    b"a: 2026-99-99",
    b"a: 2026-11-28T99:99:99Z",
    b"a: !!int x",
    b"a: !!float x",
    b"a: !!binary \xc3\xa9",
    b"a: !!timestamp x",
    b"a: !!bool x",
    b"a: !!set x",
    b"a: !!omap x",
    b"a: !!python/object:x.y {}",
    b"a: !!int ''",
    b"? [a]\n: 1",
    b"&a [*a]",
    b"a: &a {b: *a}",
    b"a: &a {b: *a, c: *a}",
    b"seed: 1\nname: &a [*a, *a]",
    b"- 1",
    b"a: 1:99999999999999999999",
    b"a: 1e999",
    b"a: .nan",
]


def mutations(texts: list[bytes]) -> st.SearchStrategy[bytes]:
    """Return texts with parts replaced, and arbitrary bytes."""

    @st.composite
    def mutated(draw: st.DrawFn) -> bytes:
        text = draw(st.sampled_from(texts))
        for _ in range(draw(st.integers(1, 4))):
            start = draw(st.integers(0, len(text)))
            end = draw(st.integers(start, min(len(text), start + 20)))
            part = draw(st.binary(max_size=8) | st.sampled_from(NASTY).filter(lambda one: len(one) < 40))
            text = text[:start] + part + text[end:]
        return text

    return mutated() | st.binary(max_size=200)


Read = Callable[[Path], Any]


@contextlib.contextmanager
def only_errors() -> Any:
    with contextlib.suppress(CcpError):
        yield


def request(file: Path) -> None:
    number, asked = read_request(file.read_bytes())
    assert 0 <= number < 1 << 63
    if isinstance(asked, CcpError):
        assert asked.slug == "control.bad_request"


def run_info(file: Path) -> None:
    place = run_file("/sys/fs/bpf/x", file.parent)
    file.replace(place)
    running("/sys/fs/bpf/x", file.parent)


def saved(file: Path) -> None:
    file.chmod(0o600)
    left_behind(file, Before)


def stored(file: Path) -> None:
    known_good = KnownGood(file.parent, lambda *_: FakeProgram())
    file.replace(file.with_name("f.json"))
    known_good.record("f")


READERS: dict[str, tuple[Read, list[bytes]]] = {
    "scenario": (Scenario.load, [file.read_bytes() for file in SCENARIOS]),
    "nodes": (read_nodes, [b"7: {name: ap1, queue_depth_unit: packets}\n9: {name: b}"]),
    "request": (
        request,
        [
            b'{"version": 1, "id": 7, "ask": {"do": "set_params", "values": {"beta": 0.8}, "flow": 3}}',
            b'{"version": 1, "id": 7, "ask": {"do": "load", "source": "x", "canary": "5%", "seconds": 9.0}}',
        ],
    ),
    "run file": (run_info, [b'{"pid": 1, "pin_dir": "/x", "programs": {"1": "a/b"}, "started_ticks": 5}']),
    "saved settings": (saved, [b'{"before": {"a": "b"}}']),
    "known-good version": (stored, [b'{"file":"f","class_name":"A","sha256":"x","texts":{},"condemned":[]}']),
}


@pytest.mark.parametrize("name", READERS)
def test_nasty_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    read, _ = READERS[name]
    for number, raw in enumerate(NASTY):
        file = tmp_path / str(number)
        file.write_bytes(raw)
        with only_errors():
            read(file)


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
def test_mutated_files_are_read_or_refused(name: str, data: st.DataObject) -> None:
    read, texts = READERS[name]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file"
        file.write_bytes(data.draw(mutations(texts)))
        with only_errors():
            read(file)
