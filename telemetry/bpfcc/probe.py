"""An attached probe: events of its outputs, and changes of its tables."""

from __future__ import annotations

import atexit
import ctypes
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from ccplane.base import clock
from ccplane.base.names import close_names
from telemetry.bpfcc import host
from telemetry.bpfcc.errors import ProbeError
from telemetry.bpfcc.explain import explained, overheard
from telemetry.bpfcc.tables import KINDS, Table, Tables
from telemetry.bpfcc.values import CLOCKS, Value, clock_of, fields_of

BUFFER_PAGES: Final = 256
"""Buffer for events of an output on each processor: 1 MiB."""

CLOCK_SLACK_US: Final = 1_000_000
"""Tolerance for events that seem to be before the start of the probe, or in the future [us]."""

LARGEST_EVENT: Final = 1 << 16
"""Maximum size of an event of an output [bytes]."""

# enum bpf_map_type, <linux/bpf.h>
_PERF_OUTPUT: Final = 4
_RINGBUF_OUTPUT: Final = 27

_ATTACHED: Final = (
    "kprobe_fds",
    "tracepoint_fds",
    "raw_tracepoint_fds",
    "kfunc_entry_fds",
    "kfunc_exit_fds",
    "lsm_fds",
)


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a probe.

    Attributes:
        t_us: Time, CLOCK_MONOTONIC [us]. For tables, and for outputs whose events have no time: when it was
            read.
        source: Name of the output or table.
        fields: Its fields; `key` and `value` for a table.
    """

    t_us: int
    source: str
    fields: dict[str, Value]


class BccProbe:
    """C text for BCC, compiled and attached; use it in a `with` block.

    Functions attach by name, as in bcc: `kprobe__FUNCTION`, `kretprobe__FUNCTION`, `TRACEPOINT_PROBE`,
    `RAW_TRACEPOINT_PROBE`, `KFUNC_PROBE`. Data submitted to BPF_PERF_OUTPUT and BPF_RINGBUF_OUTPUT are
    events. Without an output, tables are polled, and each changed entry is an event.

    Attributes:
        dropped: Lost events of perf outputs that were not read in time.
        without_clock: Outputs whose events have no time; they get the time of reading, up to 50 ms late.
        unreadable: Tables that cannot be read, because bcc does not know the type of their keys or values.
    """

    def __init__(
        self, text: str, *, tables: Sequence[str] = (), interval_s: float = 1.0, name: str = "probe"
    ) -> None:
        """Compile, load and attach the probe; this takes seconds.

        Args:
            text: The C text.
            tables: Tables to poll; by default all if there is no output, else none.
            interval_s: Time between two polls [s].
            name: Name of the text in errors, such as its file.

        Raises:
            ProbeError: `probe.no_bcc`, `probe.wrong_bcc`, `probe.no_headers`, `probe.no_kprobes`,
                `probe.not_permitted`, `probe.not_compiled`, `probe.refused`, `probe.not_attached`,
                `probe.attaches_to_nothing`, `probe.nothing_to_show`, `probe.no_table` or `probe.no_fields`.
        """
        bcc = host.load(text)
        self.dropped = 0
        self.without_clock: list[str] = []
        self._name = name
        self._taken: list[tuple[str, bytes]] = []
        self._types: dict[str, Any] = {}
        self._clocks: dict[str, str | None] = {}
        self._interval_s = interval_s
        self._look_s = 0.0
        self._begin_us = _now_us()
        # In two steps, so that functions attached before a failure can be detached.
        self._bpf = bcc.BPF.__new__(bcc.BPF)
        try:
            with overheard() as said:
                try:
                    self._bpf.__init__(text=text.encode())
                except Exception as error:  # bcc has no exception types
                    raise explained(error, said(), name) from error
            self._check_attached()
            kinds = self._kinds(bcc.libbcc.lib)
            self._tables = Tables(
                self._bpf, {table: kind for table, kind in kinds.items() if kind in KINDS}, text
            )
            self._perf, self._rings, self._watched = self._choose(kinds, tables)
            self.unreadable = self._tables.unreadable
            self._check_readable()
            for output in (*self._perf, *self._rings):
                self._open(output)
        except BaseException:
            self.close()
            raise

    @property
    def sources(self) -> list[str]:
        """Names of the outputs and tables with events."""
        return [*self._perf, *self._rings, *self._watched]

    def drain(self, timeout_s: float = 0.0) -> list[Event]:
        """Return the events since the last call; those from the same processor are in order.

        Args:
            timeout_s: Time to wait for the first event [s].

        Raises:
            ProbeError: `probe.clock`.
        """
        timeout_ms = round(1000 * timeout_s)
        if self._perf:
            self._bpf.perf_buffer_poll(timeout=timeout_ms)
        if self._rings:
            self._bpf.ring_buffer_poll(timeout=0 if self._perf else timeout_ms)
        if not (self._perf or self._rings):
            time.sleep(max(0.0, min(timeout_s, self._look_s - time.monotonic())))
        taken, self._taken = self._taken, []
        return [*self._events(taken), *self._changes()]

    def read_tables(self) -> list[Table]:
        """Return the current content of all tables of the probe, even of tables without events."""
        return self._tables.read()

    def close(self) -> None:
        """Remove the probe from the kernel; may be called again."""
        self._bpf.cleanup()
        atexit.unregister(self._bpf.cleanup)  # bcc would keep everything until the process exits

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Creation

    def _check_attached(self) -> None:
        if not any(getattr(self._bpf, kind, None) for kind in _ATTACHED):
            raise ProbeError(
                "probe.attaches_to_nothing",
                "the probe attaches to nothing",
                self._name,
                "the text has no function whose name is that of an attach point",
                "name the function kprobe__KERNEL_FUNCTION, or use TRACEPOINT_PROBE(CATEGORY, EVENT)",
            )

    def _kinds(self, lib: Any) -> dict[str, int]:
        module = self._bpf.module
        # bcc's Python module does not declare these two.
        count_of, name_of = lib["bpf_num_tables"], lib["bpf_table_name"]
        count_of.argtypes, count_of.restype = [ctypes.c_void_p], ctypes.c_size_t
        name_of.argtypes, name_of.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_char_p
        return {
            name_of(module, i).decode(): lib.bpf_table_type_id(module, i) for i in range(count_of(module))
        }

    def _choose(self, kinds: dict[str, int], wanted: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """Return perf outputs, ring buffers, and the tables to poll."""
        perf = [name for name, kind in kinds.items() if kind == _PERF_OUTPUT]
        rings = [name for name, kind in kinds.items() if kind == _RINGBUF_OUTPUT]
        tables = [name for name, kind in kinds.items() if kind in KINDS]
        for name in wanted:
            if name not in tables:
                raise ProbeError(
                    "probe.no_table",
                    f"the probe has no table `{name}`",
                    self._name,
                    fix=close_names(name, tables, "table"),
                )
        if wanted or perf or rings:
            tables = list(dict.fromkeys(wanted))
        if not (perf or rings or tables):
            raise ProbeError(
                "probe.nothing_to_show",
                "the probe has no events",
                self._name,
                "the text has neither an output nor a table",
                "declare BPF_PERF_OUTPUT(events), and call events.perf_submit(ctx, &event, sizeof(event))",
            )
        return perf, rings, tables

    def _check_readable(self) -> None:
        for table in self._watched:
            if table in self.unreadable:
                raise ProbeError(
                    "probe.no_fields",
                    f"cannot read the entries of `{table}`",
                    self._name,
                    "the keys or values have a type that bcc does not know",
                    "use numbers, or structs of numbers",
                )

    def _open(self, output: str) -> None:
        table = self._bpf[output.encode()]
        with overheard() as said:
            try:
                made = type(table.event(ctypes.create_string_buffer(LARGEST_EVENT)))
                why = "" if made._fields_ else "the submitted data is not a struct, or nothing is submitted"
            except SystemExit:  # bcc's reaction to an unknown type
                why = said().strip() or "a field has a type that bcc does not know"
        if why:
            raise ProbeError(
                "probe.no_fields",
                f"cannot determine the fields of `{output}`",
                self._name,
                why,
                "submit a struct of numbers and arrays of numbers: u8[16] for an IPv6 address",
            )
        self._types[output] = made
        self._clocks[output] = clock_of(str(one[0]) for one in made._fields_)
        if self._clocks[output] is None:
            self.without_clock.append(output)

        def take(_: Any, data: Any, size: int) -> None:
            self._taken.append((output, ctypes.string_at(data, size)))

        if output in self._perf:
            table.open_perf_buffer(take, page_cnt=BUFFER_PAGES, lost_cb=self._lost)
        else:
            table.open_ring_buffer(take)

    def _lost(self, count: int) -> None:
        self.dropped += count

    # Reading

    def _events(self, taken: Iterable[tuple[str, bytes]]) -> Iterator[Event]:
        now_us = _now_us()
        for output, raw in taken:
            fields = fields_of(self._types[output].from_buffer_copy(raw))
            clock = self._clocks[output]
            if clock is None:
                yield Event(now_us, output, fields)
                continue
            reported = fields.pop(clock)
            t_us = reported // CLOCKS[clock]
            if not self._begin_us - CLOCK_SLACK_US <= t_us <= now_us + CLOCK_SLACK_US:
                raise ProbeError(
                    "probe.clock",
                    f"the time of an event of `{output}` is outside of the probe's run time",
                    self._name,
                    f"the event's field {clock} is {reported}; the current time is {now_us * CLOCKS[clock]}",
                    "set this field to bpf_ktime_get_ns(), divided by 1000 for t_us and ts_us; "
                    "rename fields with other times",
                )
            yield Event(t_us, output, fields)

    def _changes(self) -> Iterator[Event]:
        if not self._watched or time.monotonic() < self._look_s:
            return
        self._look_s = time.monotonic() + self._interval_s
        for name, entry in self._tables.changes(self._watched):
            yield Event(_now_us(), name, entry)


def _now_us() -> int:
    return clock.now_us()
