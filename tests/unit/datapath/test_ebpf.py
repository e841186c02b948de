from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ccplane.base import _native
from ccplane.base.errors import LangError, LoadError
from ccplane.datapath import ebpf, protocol

HERE = Path(__file__).parent

GOOD = """
(def (cap_bytes 7) (Report (volatile acked 0) (rtt_us 0)))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.rtt_us Flow.rtt_sample_us)
    (report))
"""


@pytest.mark.kernel_part
def test_stub_describes_the_native_module() -> None:
    allowlist = ["--allowlist", str(HERE / "stubtest_allowlist.txt")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "ccplane.base._native", *allowlist],
        cwd=HERE.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.kernel_part
def test_native_classes_have_what_the_protocols_ask_for() -> None:
    pairs = [
        (_native.EbpfDatapath, protocol.Datapath),
        (_native.EbpfView, protocol.DatapathView),
        (_native.Batch, protocol.Batch),
        (_native.Report, protocol.DatapathReport),
        (_native.FlowInfo, protocol.FlowInfo),
        (_native.FlowStats, protocol.FlowStats),
        (_native.Created, protocol.Created),
        (_native.Closed, protocol.Closed),
        (_native.Program, protocol.Program),
    ]
    for cls, wanted in pairs:
        names = {name for name in vars(wanted) if name in ("__len__", "__iter__") or not name.startswith("_")}
        assert names, wanted
        assert not {name for name in names if not hasattr(cls, name)}, cls


def test_program_reports_its_registers() -> None:
    program = ebpf.compile_program(GOOD, "mine")
    assert program.name == "mine"
    assert program.report_fields == ["acked", "rtt_us"]
    assert program.control_registers == ["cap_bytes"]
    assert "Ack.bytes_acked" in program.primitives
    assert program.n_instructions > 0


def test_error_names_the_line_of_the_file_when_the_text_begins_further_down() -> None:
    broken = GOOD.replace("Flow.rtt_sample_us", "Flow.rtt_sample_ms")
    with pytest.raises(LangError) as caught:
        ebpf.compile_program(broken, "mine", "algs/x.py", 40)
    error = caught.value
    assert error.slug == "lang.unknown_field"
    assert error.where.startswith("algs/x.py:44:")  # the fifth line of a text that begins in line 40
    assert '"mine"' in error.where
    assert "Flow.rtt_sample_us" in error.fix


@pytest.mark.parametrize(
    "call",
    [
        lambda: ebpf.load(ebpf.LoadOptions()),
        ebpf.observe,
        ebpf.unload,
        lambda: ebpf.compile_program(GOOD),
        ebpf.probe,
        ebpf.drop_capabilities,
        ebpf.try_load,
    ],
)
def test_every_function_says_so_when_the_native_part_is_missing(call, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ccplane.base._native", None)
    monkeypatch.delattr("ccplane.base._native", raising=False)
    with pytest.raises(LoadError) as caught:
        call()
    assert caught.value.slug == "load.no_native_module"
    assert "pip install" in caught.value.fix


@pytest.mark.kernel_part
def test_probe_gives_a_fix_for_everything_that_is_missing() -> None:
    found = ebpf.probe()
    assert {"kernel", "btf", "capabilities"} <= {one.name for one in found}
    assert all(one.fix for one in found if not one.ok)


def test_what_does_not_load_is_reported_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = LoadError(
        "load.refused", "the kernel refused it", where="prog", why="too large", fix="use less"
    )
    monkeypatch.setattr(_native, "try_load", lambda: [("datapath", None), ("switch", refused)])
    assert ebpf.try_load() == [
        ebpf.Capability("datapath", ok=True, required=True, detail="loads", fix=""),
        ebpf.Capability(
            "switch",
            ok=False,
            required=False,
            detail="the kernel refused it: prog: too large",
            fix="use less",
        ),
    ]
