"""A probe, attached: events of its outputs, and its tables as they change."""

from __future__ import annotations

import atexit
import ctypes
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from ccplane.base.names import close_names
from telemetry.bpfcc import host
from telemetry.bpfcc.errors import ProbeError
from telemetry.bpfcc.explain import explained, overheard
from telemetry.bpfcc.tables import KINDS, Table, Tables
from telemetry.bpfcc.values import CLOCKS, Value, clock_of, fields_of

BUFFER_PAGES: Final = 256
"""Room for events of an output on each processor: 1 MiB."""

CLOCK_SLACK_US: Final = 1_000_000
"""By how much an event may seem to come before the probe, or from the future [us]."""

LARGEST_EVENT: Final = 1 << 16
"""No event of an output can be larger [bytes]."""

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
    """Something that a probe tells.

    Attributes:
        t_us: When, CLOCK_MONOTONIC [us]; of an output whose events have no time, and of a table, when it was
            read.
        source: Name of the output or table.
        fields: What it says; of a table `key` and `value`.
    """

    t_us: int
    source: str
    fields: dict[str, Value]


class BccProbe:
    """C text for BCC, compiled and attached; use it in a `with` block.

    Functions attach by their names, as bcc has it: `kprobe__FUNCTION`, `kretprobe__FUNCTION`,
    `TRACEPOINT_PROBE`, `RAW_TRACEPOINT_PROBE`, `KFUNC_PROBE`. What is submitted to BPF_PERF_OUTPUT and
    BPF_RINGBUF_OUTPUT are events. Where there is none, tables are looked at again and again, and each entry
    that changed is an event.

    Attributes:
        dropped: Events that were lost, because nobody took them in time; of perf outputs.
        without_clock: Outputs whose events have no time: they get the one when they were read, up to 50 ms
            late.
        unreadable: Tables that cannot be read, because bcc does not know the type of their keys or values.
    """

    def __init__(
        self, text: str, *, tables: Sequence[str] = (), interval_s: float = 1.0, name: str = "probe"
    ) -> None:
        """Compile, load and attach it: takes seconds.

        Args:
            text: The C text.
            tables: Tables to look at; by default all, if there is no output, else none.
            interval_s: How often to look at them [s].
            name: What errors call the text, such as its file.

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
        # Made in two steps: what is attached before something fails can be detached.
        self._bpf = bcc.BPF.__new__(bcc.BPF)
        try:
            with overheard() as said:
                try:
                    self._bpf.__init__(text=text.encode())
                except Exception as error:  # bcc has none of its own
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
        """Names of the outputs and tables that events come from."""
        return [*self._perf, *self._rings, *self._watched]

    def drain(self, timeout_s: float = 0.0) -> list[Event]:
        """Return the events since the last call; of one processor they are in order.

        Args:
            timeout_s: How long to wait for the first [s].

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
        """Return what its tables hold now, whether or not their changes are events."""
        return self._tables.read()

    def close(self) -> None:
        """Take it out of the kernel; may be called again."""
        self._bpf.cleanup()
        atexit.unregister(self._bpf.cleanup)  # bcc would keep it all until the process ends

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take it out of the kernel."""
        self.close()

    # Making it

    def _check_attached(self) -> None:
        if not any(getattr(self._bpf, kind, None) for kind in _ATTACHED):
            raise ProbeError(
                "probe.attaches_to_nothing",
                "the probe is attached to nothing",
                self._name,
                "no function has a name that says where it belongs",
                "call it kprobe__KERNEL_FUNCTION, or use TRACEPOINT_PROBE(CATEGORY, EVENT)",
            )

    def _kinds(self, lib: Any) -> dict[str, int]:
        """Return name -> type of all maps of the probe."""
        module = self._bpf.module
        # bcc's Python does not use these two, and so has not declared them.
        count_of, name_of = lib["bpf_num_tables"], lib["bpf_table_name"]
        count_of.argtypes, count_of.restype = [ctypes.c_void_p], ctypes.c_size_t
        name_of.argtypes, name_of.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_char_p
        return {
            name_of(module, i).decode(): lib.bpf_table_type_id(module, i) for i in range(count_of(module))
        }

    def _choose(self, kinds: dict[str, int], wanted: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """Return perf outputs, ring buffers, and the tables whose changes are events."""
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
                "the probe has nothing to show",
                self._name,
                "it has neither an output nor a table",
                "declare BPF_PERF_OUTPUT(events), and call events.perf_submit(ctx, &event, sizeof(event))",
            )
        return perf, rings, tables

    def _check_readable(self) -> None:
        for table in self._watched:
            if table in self.unreadable:
                raise ProbeError(
                    "probe.no_fields",
                    f"the entries of `{table}` cannot be told",
                    self._name,
                    "its keys or values have a type that bcc does not know",
                    "use numbers, or structs of them",
                )

    def _open(self, output: str) -> None:
        table = self._bpf[output.encode()]
        with overheard() as said:
            try:
                made = type(table.event(ctypes.create_string_buffer(LARGEST_EVENT)))
                why = "" if made._fields_ else "what is submitted is no struct, or nothing is"
            except SystemExit:  # bcc's way to say that it does not know a type
                why = said().strip() or "it has a type that bcc does not know"
        if why:
            raise ProbeError(
                "probe.no_fields",
                f"the fields of `{output}` cannot be told",
                self._name,
                why,
                "submit a struct whose fields are numbers, or arrays of them: u8[16] for an IPv6 address",
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

    # Reading it

    def _events(self, taken: Iterable[tuple[str, bytes]]) -> Iterator[Event]:
        now_us = _now_us()
        for output, octets in taken:
            fields = fields_of(self._types[output].from_buffer_copy(octets))
            clock = self._clocks[output]
            if clock is None:
                yield Event(now_us, output, fields)
                continue
            told = fields.pop(clock)
            t_us = told // CLOCKS[clock]
            if not self._begin_us - CLOCK_SLACK_US <= t_us <= now_us + CLOCK_SLACK_US:
                raise ProbeError(
                    "probe.clock",
                    f"an event of `{output}` is not of the time in which the probe runs",
                    self._name,
                    f"its field {clock} is {told}; now it would be {now_us * CLOCKS[clock]}",
                    "fill it with bpf_ktime_get_ns(), by 1000 in t_us and ts_us; name other times otherwise",
                )
            yield Event(t_us, output, fields)

    def _changes(self) -> Iterator[Event]:
        if not self._watched or time.monotonic() < self._look_s:
            return
        self._look_s = time.monotonic() + self._interval_s
        for name, entry in self._tables.changes(self._watched):
            yield Event(_now_us(), name, entry)


def _now_us() -> int:
    return time.monotonic_ns() // 1000
