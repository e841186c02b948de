from __future__ import annotations

import ctypes
from typing import Any

from telemetry.bpfcc.tables import Tables

HASH, ARRAY, PERCPU_HASH = 1, 2, 5
U32, U64 = ctypes.c_uint, ctypes.c_ulonglong


class Lifecycle:
    def __init__(self, *entries: tuple[Any, Any]) -> None:
        self.entries = entries

    def items(self) -> list[tuple[Any, Any]]:
        return list(self.entries)

    def print_log2_hist(self, strip_leading_zero: bool) -> None:
        print("by powers of two\n")

    def print_linear_hist(self, strip_leading_zero: bool) -> None:
        print([0][len(self.entries)])


def counting(**counts: int) -> Lifecycle:
    return Lifecycle(*((U32(int(key[1:])), U64(count)) for key, count in counts.items()))


def test_entries_that_changed_are_reported_and_arrays_begin_with_zeros() -> None:
    bpf = {b"ports": counting(p80=0), b"slots": counting(s0=0, s1=4)}
    tables = Tables(bpf, {"ports": HASH, "slots": ARRAY}, "")
    assert list(tables.changes(["ports", "slots"])) == [
        ("ports", {"key": 80, "value": 0}),
        ("slots", {"key": 1, "value": 4}),
    ]
    assert list(tables.changes(["ports", "slots"])) == []
    bpf[b"slots"] = counting(s0=1, s1=4)
    assert list(tables.changes(["ports"])) == []
    assert list(tables.changes(["slots"])) == [("slots", {"key": 0, "value": 1})]


def test_all_that_is_there_is_read_the_largest_of_hashes_first() -> None:
    shared = Lifecycle((U32(1), (U64 * 2)(3, 4)))
    bpf = {b"ports": counting(p22=1, p80=9), b"slots": counting(s0=2, s1=0, s2=7), b"shared": shared}
    ports, slots, of_all = Tables(bpf, {"ports": HASH, "slots": ARRAY, "shared": PERCPU_HASH}, "").read()
    assert [(one["key"], one["value"]) for one in ports.entries] == [(80, 9), (22, 1)]
    assert [(one["key"], one["value"]) for one in slots.entries] == [(0, 2), (2, 7)]
    assert of_all.entries == [{"key": 1, "value": 7}]
    assert {ports.histogram, slots.histogram, of_all.histogram} == {""}


def test_histograms_are_drawn_by_bcc_and_no_other_table() -> None:
    bpf = {b"sizes": counting(s1=5), b"ports": counting(p80=1)}
    text = "BPF_HASH(ports);\nBPF_HISTOGRAM( sizes, int);\nsizes.increment(bpf_log2l(size));"
    sizes, ports = Tables(bpf, {"sizes": ARRAY, "ports": HASH}, text).read()
    assert (sizes.name, sizes.histogram, ports.histogram) == ("sizes", "by powers of two", "")


def test_a_histogram_that_bcc_cannot_draw_has_its_entries() -> None:
    (sizes,) = Tables({b"sizes": counting(s1=5)}, {"sizes": ARRAY}, "BPF_HISTOGRAM(sizes);").read()
    assert (sizes.entries, sizes.histogram) == ([{"key": 1, "value": 5}], "")


def test_what_bcc_cannot_decode_is_named_and_left_out() -> None:
    tables = Tables({b"ports": counting(p80=1)}, {"odd": HASH, "ports": HASH}, "")
    assert tables.unreadable == ["odd"]
    assert [table.name for table in tables.read()] == ["ports"]
