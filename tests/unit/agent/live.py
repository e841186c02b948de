"""Shared by tests of live changes: an agent loop with a loader, on the test's thread."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import Running, compile_programs, find, name_of
from ccplane.agent.events import Event
from ccplane.agent.names import derived
from ccplane.agent.reload import Loader
from ccplane.agent.source import Source
from ccplane.datapath.ebpf import compile_program
from tests.unit.agent.fakes import FakeCreated, FakeDatapath, FakeInfo, FakeReport

T = TypeVar("T")

FOLD = """
(def (Report (volatile acked 0)) (beta_permille 500))
(when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (report))
"""


def text(body: str, fold: str = FOLD, base: str = "Algorithm", head: str = "") -> str:
    """Source of an algorithm `Mine` whose class has this body."""
    return (
        f"from ccp_algs import Algorithm, Param, Updates, VectorAlgorithm\n{textwrap.dedent(head)}\n"
        f"class Mine({base}):\n    program = '''{fold}'''\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
    )


FIRST = text("""
    beta = Param(0.5, min=0.1, max=0.9)

    def on_create(self, info):
        self.n = 0
        self.flow.set(cwnd_bytes=20_000, beta_permille=700)

    def on_report(self, report):
        self.n += 1
        self.flow.set(cwnd_bytes=10_000 + self.n)
""")
SECOND = FIRST.replace("10_000", "50_000")


class Edited:
    """A running agent loop whose only algorithm is edited.

    Attributes:
        agent_loop: The plane.
        datapath: The recording datapath.
        loader: The loader.
        file: The algorithm's file.
        events: Emitted events.
    """

    def __init__(self, file: Path, source: str, *flow_ids: int) -> None:
        self.file = file
        if source:
            file.write_text(source)
        algorithm = find(str(file))
        programs = compile_programs(algorithm, compile_program)
        name = name_of(algorithm, str(file))
        self.datapath = FakeDatapath()
        self.agent_loop = AgentLoop(
            self.datapath,  # type: ignore[arg-type]
            [Running(algorithm, name, programs, next(iter(programs)), derived(name))],
        )
        self.loader = Loader(self.agent_loop, compile_program)
        self.events: list[Event] = []
        self.agent_loop.events.listen(self.events.append)
        self.feed(*(FakeCreated(FakeInfo(flow_id)) for flow_id in flow_ids))

    @property
    def handle(self) -> int:
        """Handle of the program that flows start with."""
        initial = self.agent_loop.hosts["mine"].programs.initial
        assert initial is not None
        return initial.handle

    def instance(self, flow_id: int = 1) -> Any:
        return self.agent_loop.flows[flow_id].instance

    def feed(self, *events: Any) -> None:
        self.datapath.feed(*events)
        self.agent_loop.turn(0)

    def report(self, flow_id: int, **registers: int) -> None:
        live = self.agent_loop.flows.get(flow_id)
        handle = self.handle if live is None or live.failed else live.flow.handle
        self.feed(FakeReport(flow_id, handle, **registers))

    def done(self, future: Future[T]) -> T:
        """Run the loop until a job on another thread is done."""
        while not future.done():
            self.agent_loop.turn(0)
            threading.Event().wait(0.001)
        return future.result()

    def do(self, job: Callable[[], T]) -> T:
        return self.done(self.loader.submit(job))

    def save(self, source: str) -> Any:
        """Save the file and reload it; return the result, or raise."""
        self.file.write_text(source)
        return self.do(lambda: self.loader.reload("mine"))

    def load(self, source: str, name: str = "") -> Any:
        return self.do(lambda: self.loader.load(Source(source, "<cell>"), name))


@contextmanager
def edited(file: Path, source: str, *flow_ids: int) -> Iterator[Edited]:
    made = Edited(file, source, *flow_ids)
    made.loader.start()
    try:
        yield made
    finally:
        made.loader.close()
