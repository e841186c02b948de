"""Fold programs written in Python: what the datapath computes on every ACK, and when it reports.

A fold program is a class. Each line of its body names a register, a statement or a condition; in the kernel
the lines run in this order on every ACK:

    class MyFold(FoldProgram):
        acked = total(Ack.bytes_acked)               # fields of the report: since the last one
        rtt_us = latest(Flow.rtt_sample_us)
        target_bytes = control(0)                    # set by Python: flow.set(target_bytes=...)
        grow = Cwnd.add(Ack.bytes_acked, when=Cwnd < target_bytes)
        when = every(Flow.srtt_us) | (Ack.lost_pkts_sample > 0)

`MyFold.source` is the program in the CCP datapath language.

| To                                    | write                                                             |
|---------------------------------------|-------------------------------------------------------------------|
| report a sum, the last value, extremes| `total(x)`, `latest(x)`, `minimum(x)`, `maximum(x)`               |
| report a moving average, a count      | `smoothed(x)`, `count(condition)`                                 |
| report something computed             | `x = field(0)`, then `set_x = x.set(...)`                         |
| receive a number from Python          | `x = control(0)`                                                  |
| remember a number between ACKs        | `x = state(0)`                                                    |
| name an intermediate result           | `x = let(expression)`                                             |
| set the window or the pacing rate     | `y = Cwnd.set(expression, when=condition)`, `Rate.set`, `.add`    |
| do several things under one condition | `y = on(condition, statement, ...)`                               |
| report                                | `when = every(period_us) | condition`, or `when = never`          |

Derived classes append their lines to those of the base; a line of the same name replaces the inherited one.
Functions can build groups of lines for several programs: see `Part`.
"""

from ccp_algs.fold.expressions import INFINITY, distance, max_, min_
from ccp_algs.fold.lines import (
    Block,
    Cwnd,
    Micros,
    Part,
    Rate,
    Register,
    ReportField,
    Statement,
    at_end,
    control,
    count,
    field,
    latest,
    let,
    maximum,
    minimum,
    on,
    smoothed,
    state,
    total,
)
from ccp_algs.fold.primitives import Ack, Flow, Int
from ccp_algs.fold.program import FoldProgram
from ccp_algs.fold.reporting import every, never

__all__ = [
    "INFINITY",
    "Ack",
    "Block",
    "Cwnd",
    "Flow",
    "FoldProgram",
    "Int",
    "Micros",
    "Part",
    "Rate",
    "Register",
    "ReportField",
    "Statement",
    "at_end",
    "control",
    "count",
    "distance",
    "every",
    "field",
    "latest",
    "let",
    "max_",
    "maximum",
    "min_",
    "minimum",
    "never",
    "on",
    "smoothed",
    "state",
    "total",
]
