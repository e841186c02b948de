"""Probes without bcc; tests/kernel/test_probe.py has the tests with bcc."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.bpfcc import BccProbe, errors, explain, host, why_not
from telemetry.bpfcc.errors import ProbeError
from telemetry.bpfcc.explain import explained, overheard
from telemetry.bpfcc.values import clock_of, fields_of

KPROBE = "int kprobe__tcp_retransmit_skb(void *ctx) { return 0; }"


class Inner(ctypes.Structure):
    _fields_ = (("one", ctypes.c_uint), ("__pad_1", ctypes.c_char * 4))


class Struct(ctypes.Structure):
    _fields_ = (
        ("ts", ctypes.c_ulonglong),
        ("saddr", ctypes.c_uint),
        ("daddr", ctypes.c_ubyte * 16),
        ("saddr_v6", ctypes.c_ulonglong * 2),
        ("comm", ctypes.c_char * 16),
        ("state", ctypes.c_char),
        ("numbers", ctypes.c_short * 3),
        ("inner", Inner),
        ("far", ctypes.c_longlong),
    )


def test_structs_become_plain_values() -> None:
    made = Struct(ts=7, comm=b"iperf3", state=b"\xff", far=-5)
    made.saddr = int.from_bytes(socket.inet_aton("10.0.0.1"), sys.byteorder)
    made.daddr[:] = socket.inet_pton(socket.AF_INET6, "::ffff:10.0.0.2")
    ctypes.memmove(made.saddr_v6, socket.inet_pton(socket.AF_INET6, "fd77::1"), 16)
    made.numbers[:] = [1, -2, 3]
    made.inner.one = 4
    assert fields_of(made) == {
        "ts": 7,
        "saddr": "10.0.0.1",
        "daddr": "10.0.0.2",
        "saddr_v6": "fd77::1",
        "comm": "iperf3",
        "state": -1,
        "numbers": [1, -2, 3],
        "inner": {"one": 4},
        "far": -5,
    }


def test_the_clock_of_an_event_is_found_by_its_name() -> None:
    assert clock_of(["sport", "ts", "t_us"]) == "t_us"
    assert clock_of(["sport", "ts"]) == "ts"
    assert clock_of(["sport", "srtt_us"]) is None


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    for name in _of_bcc():
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if not Path(one, "bcc").exists()])
    folder = tmp_path / "dist-packages"
    monkeypatch.setattr(host, "DISTRIBUTION", folder)
    monkeypatch.setattr(host, "HEADERS", (tmp_path,))
    monkeypatch.setattr(host, "KPROBES", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def put(text: str) -> Path:
        (folder / "bcc").mkdir(parents=True)
        (folder / "bcc/__init__.py").write_text(text)
        return folder

    yield put
    for name in _of_bcc():
        del sys.modules[name]


def _of_bcc() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "bcc"]


def refusal(text: str = KPROBE) -> ProbeError:
    with pytest.raises(ProbeError) as refused:
        host.load(text)
    return refused.value


@pytest.mark.skipif(why_not() is None, reason="bcc and the kernel's headers are here")
def test_a_host_that_cannot_run_probes_says_why_and_how_to_mend_it() -> None:
    with pytest.raises(ProbeError) as refused:
        BccProbe(KPROBE)
    assert refused.value.slug in ("probe.no_bcc", "probe.no_headers")
    assert "apt install" in refused.value.fix


def test_bcc_is_found_where_the_distribution_puts_it(installed: Callable[[str], Path]) -> None:
    installed("from bcc.table import SIZE\nBPF = SIZE")
    (host.DISTRIBUTION / "bcc/table.py").write_text("SIZE = 7")
    assert why_not() is None
    assert host.load(KPROBE).BPF == 7
    assert host.load(KPROBE) is sys.modules["bcc"]
    assert str(host.DISTRIBUTION) not in sys.path


def test_without_bcc_it_is_named_as_the_distribution_has_it(installed: Callable[[str], Path]) -> None:
    assert why_not() == "Python has no module bcc"
    error = refusal()
    assert error.slug == "probe.no_bcc"
    assert "python3-bpfcc" in error.fix


def test_bcc_without_its_library_is_no_bcc(installed: Callable[[str], Path]) -> None:
    installed("raise OSError('libbcc.so.0: cannot open shared object file')")
    error = refusal()
    assert error.slug == "probe.no_bcc"
    assert "libbcc.so.0" in error.why
    assert "bcc" not in sys.modules


def test_the_bcc_of_others_is_reported_apart(installed: Callable[[str], Path]) -> None:
    folder = installed("__version__ = '1.0'")
    error = refusal()
    assert error.slug == "probe.wrong_bcc"
    assert error.where == str(folder / "bcc/__init__.py")
    assert error.fix.startswith("pip uninstall bcc")


def test_headers_kprobes_and_root_are_asked_for(
    installed: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("BPF = 1")
    monkeypatch.setattr(host, "HEADERS", (tmp_path / "build", tmp_path / "kheaders"))
    assert (refusal().slug, refusal().fix) == ("probe.no_headers", "apt install linux-headers-$(uname -r)")
    assert str(tmp_path / "build") in refusal().why
    monkeypatch.setattr(host, "HEADERS", (tmp_path,))
    monkeypatch.setattr(host, "KPROBES", tmp_path / "nowhere")
    assert refusal().slug == "probe.no_kprobes"
    assert "kprobe__tcp_retransmit_skb" in refusal().message
    tracepoint = "TRACEPOINT_PROBE(tcp, tcp_probe) { return 0; }"
    assert host.load(tracepoint).BPF == 1
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (refusal(tracepoint).slug, refusal(tracepoint).fix) == ("probe.not_permitted", "use sudo")


def test_what_the_compiler_says_is_reported_by_line() -> None:
    said = (
        "In file included from /virtual/main.c:2:\n"
        "include/linux/compiler.h: warning: 'HAVE_BUILTIN' macro redefined\n"
        "/virtual/main.c:4:12: error: use of undeclared identifier 'unheard_of'\n    return unheard_of;\n"
        "/virtual/main.c:9:3: error: expected ';'\n2 errors generated.\n"
    )
    error = explained(Exception("Failed to compile BPF module <text>"), said, "mine.c")
    assert (error.slug, error.where) == ("probe.not_compiled", "mine.c:4:12")
    assert error.why == "line 4: use of undeclared identifier 'unheard_of'\nline 9: expected ';'"


def test_complaints_of_headers_are_reported_as_they_are() -> None:
    said = "arch/x86/include/asm/thing.h:3:1: error: unknown type name\n"
    error = explained(Exception("Failed to compile BPF module <text>"), said, "mine.c")
    assert (error.where, error.why) == ("mine.c", said.strip())
    assert "too new" in error.fix


def test_what_cannot_be_probed_is_named_with_what_is_like_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "available_filter_functions").write_text("tcp_retransmit_skb\nudp_rcv [udp]\n")
    monkeypatch.setattr(explain, "TRACEFS", (tmp_path,))
    failed = Exception(
        "Failed to attach BPF program b'kprobe__tcp_retransmit' to kprobe b'tcp_retransmit', it's not "
        'traceable (either non-existing, inlined, or marked as "notrace")'
    )
    error = explained(failed, "", "mine.c")
    assert error.slug == "probe.not_attached"
    assert error.message == "there is no kprobe at `tcp_retransmit`"
    assert error.fix == "did you mean `tcp_retransmit_skb`?"
    monkeypatch.setattr(explain, "TRACEFS", (tmp_path / "nowhere",))
    assert "/proc/kallsyms" in explained(failed, "", "mine.c").fix


def test_the_verifiers_words_are_reported_and_its_end_not_lost() -> None:
    failed = Exception("Failed to load BPF program b'kprobe__x': Permission denied")
    said = "0: (b7) r0 = 0\n" * 1000 + "R0 !read_ok\n"
    error = explained(failed, said, "mine.c")
    assert error.slug == "probe.refused"
    assert error.why.endswith("R0 !read_ok")
    assert len(error.why) <= explain.REPORTED


def test_a_process_that_may_not_load_is_reported_so() -> None:
    failed = Exception("Failed to load BPF program b'kprobe__x': Operation not permitted")
    assert explained(failed, "", "mine.c").slug == "probe.not_permitted"


def test_what_is_written_to_stderr_is_overheard_and_stderr_restored(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with overheard() as said:
        os.write(2, b"from C\n")
        print("from Python", file=sys.stderr)
        assert said() == "from C\nfrom Python\n"
    os.write(2, b"for all\n")
    assert capfd.readouterr().err == "for all\n"


def test_every_error_is_tested() -> None:
    root = Path(__file__).parents[3]
    places: list[Any] = [
        Path(__file__),
        root / "kernel/test_probe.py",
        root / "unit/agent/test_probe_timeline.py",
    ]
    tests = "".join(path.read_text() for path in places)
    assert [slug for slug in errors.SLUGS if f'"{slug}"' not in tests] == []
