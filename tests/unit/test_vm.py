"""The parts of the virtual machines that can be wrong without one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from scripts.vm import machine, results
from scripts.vm.cpio import archive
from scripts.vm.debian import Mirrors
from scripts.vm.kernels import KERNELS, Kernel, _closure
from scripts.vm.machine import Run, boot
from scripts.vm.problem import VmError, need_programs
from scripts.vm.wifi import _check_mininet

MODULES_DEP = """\
kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/lib/crc16.ko.xz
kernel/fs/jbd2/jbd2.ko.xz:
kernel/lib/crc16.ko.xz:
kernel/net/sched/sch_tbf.ko:
kernel/net/9p/9pnet-virtio.ko.xz: kernel/net/9p/9pnet.ko.xz
kernel/net/9p/9pnet.ko.xz:
"""


def entries(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Read an archive as the kernel does: name -> mode and contents."""
    found, at = {}, 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, length = fields[1], fields[6], fields[11]
        name = data[at + 110 : at + 110 + length - 1].decode()
        begin = (at + 110 + length + 3) // 4 * 4
        at = (begin + size + 3) // 4 * 4
        if name == "TRAILER!!!":
            assert at == len(data)
            return found
        found[name] = (mode, data[begin : begin + size])


def test_an_archive_holds_the_folder(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tool").write_bytes(b"12345")
    (tmp_path / "bin/tool").chmod(0o755)
    (tmp_path / "init").write_bytes(b"")
    (tmp_path / "init").chmod(0o644)
    assert entries(archive(tmp_path)) == {
        "bin": (0o040755, b""),
        "bin/tool": (0o100755, b"12345"),
        "init": (0o100644, b""),
    }


def test_modules_come_with_what_they_need() -> None:
    assert _closure(MODULES_DEP, ["ext4", "9pnet_virtio", "built_in"]) == {
        "kernel/fs/ext4/ext4.ko.xz",
        "kernel/fs/jbd2/jbd2.ko.xz",
        "kernel/lib/crc16.ko.xz",
        "kernel/net/9p/9pnet-virtio.ko.xz",
        "kernel/net/9p/9pnet.ko.xz",
    }


REPORT = """<testsuites><testsuite>
<testcase classname="a" name="good"/>
<testcase classname="a" name="bad"><failure message="no"/></testcase>
<testcase classname="a" name="broken"/><testcase classname="a" name="broken"><error message="no"/></testcase>
<testcase classname="a" name="left"><skipped message="needs time"/></testcase>
<testcase classname="b" name="left"><skipped message="needs time"/></testcase>
</testsuite></testsuites>"""


def test_results_are_kept_by_kernel_with_what_failed_and_what_was_skipped(tmp_path: Path) -> None:
    report, kept = tmp_path / "tests.xml", tmp_path / "kernels.json"
    assert results.read_report(report) is None
    with pytest.raises(VmError):
        results.keep("6.1", "6.1.0-1", report, 90.0, "0123456", kept)
    report.write_text(REPORT)
    for name in ("7", "6.12", "6.1"):
        results.keep(name, f"{name}.0-1", report, 90.0, "0123456", kept)
    found = json.loads(kept.read_text())
    assert list(found) == ["6.1", "6.12", "7"]
    one = found["6.12"]
    assert (one["passed"], one["failed"], one["skipped"]) == (2, ["a::bad", "a::broken"], {"needs time": 2})
    assert (one["kernel"], one["seconds"]) == ("6.12.0-1", 90)
    shown = results.table(found)
    assert f"| 6.12.0-1 | 2 | 2 | 2 | 1.5 | {one['revision']} | {one['date']} |" in shown
    assert "Failed on 7:\n\n- `a::bad`" in shown


def test_the_result_of_a_command_is_kept_with_its_kernel_and_revision(tmp_path: Path) -> None:
    left = {"steps": {"up": {"came_out": "5 services run", "seconds": 12.5}}}
    (tmp_path / "left.json").write_text(json.dumps(left))
    run = Run(Kernel("6.12", "6.12.0-1", tmp_path, tmp_path), 0, 9.0, tmp_path)
    results.keep_run(run, "left.json", "a command", "0123456", tmp_path / "new" / "kept.json")
    found = json.loads((tmp_path / "new" / "kept.json").read_text())
    assert {*found} == {"command", "kernel", "revision", "date", "steps"}
    assert (found["command"], found["kernel"], found["revision"]) == ("a command", "6.12.0-1", "0123456")
    assert found["steps"] == left["steps"]


def test_security_suites_have_their_own_mirror() -> None:
    mirrors = Mirrors("main", None)
    assert mirrors.of("bookworm") == "main"
    assert mirrors.of("bookworm-security") is None
    assert all(any(mirrors.of(suite) for suite in suites) for suites in KERNELS.values())


def test_missing_programs_are_all_named() -> None:
    with pytest.raises(VmError) as caught:
        need_programs(["sh", "no-such-a", "no-such-b"])
    assert "missing programs: no-such-a, no-such-b" in str(caught.value)
    assert "scripts/setup-vm.sh" in str(caught.value)


def test_a_machine_gets_its_command_and_folders_that_it_cannot_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def qemu(args: list[str], **streams: Any) -> None:
        started.extend(args)
        streams["stdout"].write(b"guest: up\n")
        streams["stdout"].flush()
        (tmp_path / "out/status").write_text("3\n")

    monkeypatch.setattr(machine.subprocess, "run", qemu)
    ended = boot(
        Kernel("6.12", "6.12.1", Path("vmlinuz"), Path("initrd.gz")),
        Path("disk"),
        Path("venv"),
        "true",
        tmp_path / "out",
        timeout_s=1,
        cpus=2,
        memory_mb=512,
        shares={"more": Path("/some/where")},
    )
    assert ended.status == 3
    assert (tmp_path / "out/command").read_text() == "true\n"
    shares = {re.search("mount_tag=([^,]+)", arg)[1]: arg for arg in started if "mount_tag" in arg}
    assert set(shares) == {"checkout", "venv", "out", "more"}
    assert "path=/some/where," in shares["more"]
    assert {tag for tag, arg in shares.items() if "readonly=on" not in arg} == {"out"}


def test_a_folder_without_mininet_wifi_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "python/mn_wifi").mkdir(parents=True)
    with pytest.raises(VmError) as caught:
        _check_mininet(tmp_path)
    assert "python/mininet, bin/mnexec, bin/hwsim_mgmt" in str(caught.value)
    for name in ("python/mininet", "bin/mnexec", "bin/hwsim_mgmt"):
        (tmp_path / name).mkdir(parents=True)
    _check_mininet(tmp_path)
