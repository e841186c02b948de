"""The agent of a run, as a process: `python -m experiments.runs.steering_process`; see `steering.py`.

The process reads an `Order` from standard input, one line of JSON, and answers with an `Answer` when it
serves flows, and with another one at its end. It exits at the end of its input. Meanwhile the process has a
control socket like every agent.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

import msgspec

from broker.options import BusOptions
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.control import ControlOptions
from ccplane.agent.description import Plan, plan
from ccplane.agent.lifecycle import SocketOptions
from ccplane.agent.serve import ServeOptions, serve
from ccplane.base.errors import CcpError
from ccplane.datapath import registry
from ccplane.datapath.ebpf import LoadOptions
from experiments.runs import noted
from experiments.runs.steering import Answer, Order
from experiments.runs.variants import described

MAX_FLOWS: Final = 4096
"""Flow slots of the datapath: 21 MB, for 32 flows with the maximum number of connections."""


class Line:
    """The channel to the parent process."""

    def __init__(self) -> None:
        """Take over standard input and output; other output goes to the log from now on."""
        self._answers = os.dup(1)
        os.dup2(2, 1)
        self._input = os.fdopen(os.dup(0), "rb", buffering=0)

    def order(self) -> Order:
        """Wait for the order."""
        line = self._input.readline()
        if not line:
            raise SystemExit(0)
        return msgspec.json.decode(line, type=Order)

    def answer(self, error: CcpError | None = None, counters: dict[str, int] | None = None) -> None:
        """Write an answer, if the parent still reads."""
        parts = None
        if error is not None:
            several = getattr(error, "errors", (error,))
            message = error.message + "".join(f"\n{one}" for one in several[1:])
            parts = (error.slug, message, error.where, error.why, error.fix)
        with contextlib.suppress(BrokenPipeError):
            os.write(self._answers, msgspec.json.encode(Answer(parts, counters)) + b"\n")

    def stop_at_end(self, agent_loop: AgentLoop) -> None:
        """Stop an agent loop when the parent exits."""

        def wait() -> None:
            while self._input.read(1 << 16):
                pass
            agent_loop.request_stop()

        threading.Thread(target=wait, name="ccp-end-of-input", daemon=True).start()


def main() -> int:
    """Run the agent; return the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    line = Line()
    order = line.order()
    with noted.notes(
        decisions=order.decisions, regime_events=order.regime_events, features_in=order.features_in
    ) as notes:
        return _run(line, order, notes)


def _datapath(order: Order) -> LoadOptions | SocketOptions:
    if order.datapath == registry.EBPF:
        return LoadOptions(pin_dir=order.place, max_flows=MAX_FLOWS)
    return SocketOptions(order.datapath, Path(order.place))


def _run(line: Line, order: Order, notes: noted.Notes) -> int:
    began_ns = [0, 0]
    options = ServeOptions(
        load=_datapath(order),
        unload_at_end=True,
        control=ControlOptions(""),
        broker=None if order.broker is None else BusOptions.from_url(order.broker),
    )

    def ready(agent_loop: AgentLoop, _plan: Plan) -> None:
        began_ns[:] = time.process_time_ns(), time.monotonic_ns()
        notes.begin(agent_loop)
        line.stop_at_end(agent_loop)
        line.answer()

    try:
        agent_loop = serve(plan(described(order.variants, notes.note)), options, on_start=ready)
    except CcpError as error:
        line.answer(error)
        return 1
    cpu_ns, now_ns = time.process_time_ns(), time.monotonic_ns()
    spent = {"cpu_us": (cpu_ns - began_ns[0]) // 1000, "serving_us": (now_ns - began_ns[1]) // 1000}
    line.answer(counters=asdict(agent_loop.counters) | spent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
