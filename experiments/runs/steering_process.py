"""The agent of a run, as a process: `python -m experiments.runs.steering_process`; see `steering.py`.

It reads an `Order` and then `Setting`s from its standard input, one JSON object a line, and answers each with
an `Answer`. It ends when its input does.
"""

from __future__ import annotations

import contextlib
import csv
import logging
import os
import sys
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import IO, Any, Final

import msgspec

from agent.algorithms import find
from agent.events import Event
from agent.plane import Plane
from agent.serve import Plan, ServeOptions, serve
from broker.options import BusOptions
from ccp_algs.api import AnyAlgorithm, VectorAlgorithm
from ccp_algs.errors import AlgorithmError
from datapath.ebpf import LoadOptions
from datapath.errors import CcpError
from experiments.runs import limit_tables, regimes
from experiments.runs.steering import DECISION_COLUMNS, Answer, Order, Setting, Variant
from telemetry.schema import IntSummary, Sample

MODULE: Final = "experiments.runs.variants"
"""Stands for a module: the variants are its classes, so that the agent finds them as `MODULE:NAME`."""

MAX_FLOWS: Final = 4096
"""Slots of the datapath: 21 MB, for 32 flows with as many connections as a flow may have."""

Told = Callable[[int, Sample], None]
"""Is told the number of a flow, and the sample that its algorithm has answered to."""

_LOOK_S: Final = 1e-3
"""How often the standard input is looked at while reports come in one after the other [s]."""


class Line:
    """The way to who started this process."""

    def __init__(self) -> None:
        """Take standard input and output over; what prints goes to the log from now on."""
        self._answers = os.dup(1)
        os.dup2(2, 1)
        self._pending = b""
        self._next_look_s = 0.0

    def order(self) -> Order:
        """Wait for the first line."""
        while b"\n" not in self._pending:
            data = os.read(0, 1 << 16)
            if not data:
                raise SystemExit(0)
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        os.set_blocking(0, False)
        return msgspec.json.decode(line, type=Order)

    def answer(
        self, error: CcpError | AlgorithmError | None = None, counters: dict[str, int] | None = None
    ) -> None:
        """Write an answer, if somebody is there to read it."""
        parts = None
        if error is not None:
            several = getattr(error, "errors", (error,))
            message = error.message + "".join(f"\n{one}" for one in several[1:])
            parts = (error.slug, message, error.where, error.why, error.fix)
        with contextlib.suppress(BrokenPipeError):
            os.write(self._answers, msgspec.json.encode(Answer(parts, counters)) + b"\n")

    def serve(self, plane: Plane) -> None:
        """Do what has been asked for meanwhile; stop the plane when nobody is there to ask."""
        now_s = time.monotonic()
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + _LOOK_S
        try:
            data = os.read(0, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            plane.request_stop()
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            setting = msgspec.json.decode(line, type=Setting)
            try:
                plane.set_param(f"{setting.variant}.{setting.param}", setting.value)
            except CcpError as error:
                self.answer(error)
            else:
                self.answer()


def make(variants: list[Variant], told: Told | None = None) -> list[str]:
    """Make the classes of variants, and return the names by which the agent finds them.

    Args:
        variants: What to run.
        told: Called when an algorithm has answered to a telemetry sample; None calls nobody.

    Raises:
        CcpError: If an algorithm is not found.
    """
    module = types.ModuleType(MODULE)
    for variant in variants:
        setattr(module, variant.name, _derived(find(variant.algorithm), variant.name, told))
    sys.modules[MODULE] = module
    return [f"{MODULE}:{variant.name}" for variant in variants]


def _derived(base: AnyAlgorithm, name: str, told: Told | None) -> AnyAlgorithm:
    def fill(namespace: dict[str, Any]) -> None:
        namespace["name"] = name
        if told is not None:
            namespace["on_telemetry"] = _telling(base, told)
        # Module and qualified name stay the algorithm's: errors in its programs show its file.
        for same in ("__module__", "__qualname__", "__doc__"):
            namespace[same] = getattr(base, same)

    derived: AnyAlgorithm = types.new_class(base.__name__, (base,), exec_body=fill)
    return derived


def _telling(base: AnyAlgorithm, told: Told) -> Callable[[Any, Any], Any]:
    """Return an algorithm's `on_telemetry` that tells when it is done."""

    def on_telemetry(self: Any, given: Any) -> Any:
        answer = base.on_telemetry(self, given)
        all_of_them = issubclass(base, VectorAlgorithm)
        for flow_id, sample in given if all_of_them else [(self.flow.info.flow_id, given)]:
            told(flow_id, sample)
        return answer

    return on_telemetry


class Decisions:
    """The file in which it is noted when algorithms had answered to summaries of in-band telemetry.

    Attributes:
        plane: Where the flows are, as soon as there is one.
    """

    def __init__(self, path: str) -> None:
        """Begin the file."""
        self.plane: Plane | None = None
        self._file = open(path, "w", newline="")  # noqa: SIM115 - open until `close`
        self._rows = csv.writer(self._file)
        self._rows.writerow(DECISION_COLUMNS)

    def note(self, flow_id: int, sample: Sample) -> None:
        """Note that now a flow's algorithm has answered to this."""
        if self.plane is None or not isinstance(summary := sample.body, IntSummary):
            return
        now_us = time.monotonic_ns() // 1000
        info = self.plane.flows[flow_id].flow.info
        ends = (info.src_addr, info.src_port, info.dst_addr, info.dst_port)
        of_acks = (summary.flow.src, summary.flow.src_port) != ends[:2]
        self._rows.writerow((now_us, *ends, of_acks, summary.interval_us, summary.end_mono_us))

    def close(self) -> None:
        """Write what is not written yet."""
        self._file.close()


def main() -> int:
    """Run the agent; returns the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    line = Line()
    order = line.order()
    with contextlib.ExitStack() as files:
        decisions = None
        writers: list[Callable[[Event], None]] = []
        if order.decisions is not None:
            decisions = files.enter_context(contextlib.closing(Decisions(order.decisions)))
        for path, kinds, line_of in (
            (order.regime_events, regimes.EVENTS, regimes.line_of),
            (order.limit_events, limit_tables.EVENT, limit_tables.line_of),
        ):
            if path is not None:
                writers.append(_writer(files.enter_context(open(path, "wb", buffering=0)), kinds, line_of))
        return _run(line, order, decisions, writers)


def _writer(file: IO[bytes], kinds: str, line_of: Callable[[Event], bytes]) -> Callable[[Event], None]:
    """Return what writes events into a file whose kind begins so."""

    def write(event: Event) -> None:
        if event.kind.startswith(kinds):
            file.write(line_of(event))

    return write


def _run(
    line: Line, order: Order, decisions: Decisions | None, writers: Sequence[Callable[[Event], None]]
) -> int:
    def ready(plane: Plane, _plan: Plan) -> None:
        if decisions is not None:
            decisions.plane = plane
        for write in writers:
            plane.events.listen(write)
        line.answer()

    try:
        plane = serve(
            ServeOptions(
                algorithms=make(order.variants, None if decisions is None else decisions.note),
                params=[
                    f"{variant.name}.{name}={_spelled(value)}"
                    for variant in order.variants
                    for name, value in variant.params.items()
                ],
                names={variant.name: variant.congestion for variant in order.variants},
                load=LoadOptions(pin_dir=order.pin_dir, max_flows=MAX_FLOWS),
                unload_at_end=True,
                broker=None if order.broker is None else BusOptions.from_url(order.broker),
            ),
            on_start=ready,
            each_turn=line.serve,
        )
    except (CcpError, AlgorithmError) as error:
        line.answer(error)
        return 1
    line.answer(counters=asdict(plane.counters))
    return 0


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    sys.exit(main())
