"""Debian's kernels, each with an initial file system with the modules that tests use."""

from __future__ import annotations

import gzip
import lzma
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scripts.vm.cpio import archive
from scripts.vm.debian import Mirrors, first_suite
from scripts.vm.places import CACHE, HERE, digest
from scripts.vm.problem import VmError, run

KERNELS = {
    "6.1": ["bookworm-security", "bookworm"],
    "6.12": ["bookworm-backports", "trixie-security", "trixie"],
    "7": ["trixie-backports"],
}
"""Name -> suites; the first that the mirrors have is used."""

WITH_HEADERS = ("6.1",)
"""Kernels whose headers the userland's bcc can compile; 0.26 cannot compile those of 6.12."""

MODULES = """
    virtio_pci virtio_blk virtio_rng ext4 9pnet_virtio 9p crc32c_generic veth dummy tun
    sch_tbf sch_htb sch_fq sch_fq_codel sch_netem sch_red sch_ingress cls_bpf act_bpf
    overlay tcp_dctcp tcp_bbr inet_diag tcp_diag af_packet mac80211_hwsim openvswitch
""".split()  # noqa: SIM905 - 2025-11: a list of words is read more easily than 30 quoted ones


@dataclass(frozen=True)
class Kernel:
    """A kernel, ready to boot.

    Attributes:
        name: Key of KERNELS, such as `6.12`.
        version: Full version.
        image: Compressed kernel.
        initrd: Initial file system.
        headers: Folder for /usr/src, or None.
    """

    name: str
    version: str
    image: Path
    initrd: Path
    headers: Path | None = None


def make_kernel(name: str, mirrors: Mirrors, busybox: Path, *, update: bool, headers: bool) -> Kernel:
    """Return a kernel, fetched if it is missing.

    Raises:
        VmError: If no suite has it.
    """
    folder = CACHE / f"kernel-{name}"
    unpacked = folder / "unpacked"
    if update or not (folder / "version").exists():
        shutil.rmtree(folder, ignore_errors=True)
        suite = first_suite(KERNELS[name], mirrors)
        version = suite.kernel_version()
        # Newer suites split the package.
        packages = [f"linux-{part}-{version}" for part in ("image", "binary", "modules", "base")]
        suite.unpack([package for package in packages if suite.has(package)], unpacked)
        if not (unpacked / "lib/modules").exists():
            (unpacked / "lib").mkdir(exist_ok=True)
            shutil.move(unpacked / "usr/lib/modules", unpacked / "lib/modules")
        run(["depmod", "-b", str(unpacked), version])
        (folder / "version").write_text(version)
    version = (folder / "version").read_text()
    init = HERE / "initrd-init.sh"
    initrd = folder / f"initrd-{digest(*MODULES, init.read_text())}.gz"
    if not initrd.exists():
        with tempfile.TemporaryDirectory(dir=CACHE) as stage:
            _fill(Path(stage), unpacked / "lib/modules" / version, busybox, init)
            initrd.write_bytes(gzip.compress(archive(Path(stage)), compresslevel=1))
    sources = None
    if headers and name in WITH_HEADERS:
        sources = _make_headers(name, version, mirrors, folder / "headers")
    return Kernel(name, version, next(unpacked.rglob("vmlinuz*")), initrd, sources)


def _make_headers(name: str, version: str, mirrors: Mirrors, folder: Path) -> Path:
    sources = folder / "usr/src"
    if not sources.exists():
        packages = [f"linux-headers-{part}" for part in (version, version.removesuffix("-amd64") + "-common")]
        first_suite(KERNELS[name], mirrors).unpack(packages, folder)
    return sources


def _fill(stage: Path, modules: Path, busybox: Path, init: Path) -> None:
    for name in ("bin", "proc", "sys", "dev", "newroot"):
        (stage / name).mkdir()
    for source, target in ((busybox, stage / "bin/busybox"), (init, stage / "init")):
        shutil.copy(source, target)
        target.chmod(0o755)
    own = stage / "lib/modules" / modules.name
    # Unpacked here, because the emulated processor is slow.
    for path in _closure((modules / "modules.dep").read_text(), MODULES):
        plain = own / path.removesuffix(".xz")
        plain.parent.mkdir(parents=True, exist_ok=True)
        plain.write_bytes(_unpacked(modules / path))
    for listed in modules.glob("modules.builtin*"):
        shutil.copy(listed, own)
    shutil.copy(modules / "modules.order", own)
    run(["depmod", "-b", str(stage), modules.name])


def _closure(dependencies: str, names: list[str]) -> set[str]:
    """Return the files of modules (named with underscores) and their dependencies, from modules.dep."""
    depends = {
        path: others.split()
        for path, _, others in (line.partition(":") for line in dependencies.splitlines())
    }
    by_name = {Path(path).name.partition(".ko")[0].replace("-", "_"): path for path in depends}
    wanted = {by_name[name] for name in names if name in by_name}
    return wanted | {other for path in wanted for other in depends[path]}


def _unpacked(file: Path) -> bytes:
    if file.suffix == ".xz":
        return lzma.decompress(file.read_bytes())
    if file.suffix != ".ko":
        raise VmError(
            f"cannot unpack {file.name}", "only xz is supported", "add its format to scripts/vm/kernels.py"
        )
    return file.read_bytes()
