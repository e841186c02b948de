"""The agent of a run, as a process: `python -m experiments.runs.steering_process`; see `steering.py`.

It reads an `Order` and then `Setting`s from its standard input, one JSON object a line, and answers each with
an `Answer`. It ends when its input does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from dataclasses import asdict, replace
from typing import Final

import msgspec

from agent.plane import Plane
from agent.serve import Plan, serve
from broker.options import BusOptions
from ccp_base.errors import CcpError
from datapath.ebpf import LoadOptions
from experiments.runs import noted
from experiments.runs.steering import Answer, Order, Setting
from experiments.runs.variants import made

MAX_FLOWS: Final = 4096
"""Slots of the datapath: 21 MB, for 32 flows with as many connections as a flow may have."""

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

    def answer(self, error: CcpError | None = None, counters: dict[str, int] | None = None) -> None:
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


def main() -> int:
    """Run the agent; returns the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    line = Line()
    order = line.order()
    with noted.notes(
        decisions=order.decisions, regime_events=order.regime_events, limit_events=order.limit_events
    ) as notes:
        return _run(line, order, notes)


def _run(line: Line, order: Order, notes: noted.Notes) -> int:
    began_ns = [0, 0]

    def ready(plane: Plane, _plan: Plan) -> None:
        began_ns[:] = time.process_time_ns(), time.monotonic_ns()
        notes.begin(plane)
        line.answer()

    try:
        with made(order.variants, notes.note) as options:
            options = replace(
                options,
                load=LoadOptions(pin_dir=order.pin_dir, max_flows=MAX_FLOWS),
                unload_at_end=True,
                broker=None if order.broker is None else BusOptions.from_url(order.broker),
            )
            plane = serve(options, on_start=ready, each_turn=line.serve)
    except CcpError as error:
        line.answer(error)
        return 1
    cpu_ns, now_ns = time.process_time_ns(), time.monotonic_ns()
    spent = {"cpu_us": (cpu_ns - began_ns[0]) // 1000, "serving_us": (now_ns - began_ns[1]) // 1000}
    line.answer(counters=asdict(plane.counters) | spent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
