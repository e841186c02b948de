"""What the scripts of `make setup` do where something is missing; nothing is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ["bash", "chmod", "dirname", "grep", "rm", "sed", "sh", "sort", "uname"]
"""Programs that the scripts themselves run."""
ANY_BUILD = {"cc": "", "make": ""}
KERNEL_PART = {"clang": "echo '    bpf        - BPF (host endian)'", "llvm-strip": "", "pkg-config": ""}
USER = {"id": "echo 1000", "sudo": "exit 1", "apt-get": "exit 1"}

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="these scripts are for Linux")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with all programs of a machine, of which it has few."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in NEEDED:
        (folder / name).symlink_to(
            next(p for p in (Path("/usr/bin") / name, Path("/bin") / name) if p.exists())
        )
    return folder


def give(machine: Path, programs: dict[str, str]) -> None:
    for name, text in programs.items():
        file = machine / name
        file.write_text(f"#!/bin/bash\n{text}\n")
        file.chmod(0o755)


def run(machine: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env={"PATH": str(machine), "HOME": str(machine), "LIBCLANG_PATH": "/here", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def packages(
    machine: Path, step: str = "install_packages", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Look for packages, and say what is missing."""
    script = f"set -euo pipefail; . scripts/packages.sh; . scripts/system.sh; {step}; echo done"
    return run(machine, "bash", "-c", script, **variables)


def features(machine: Path, **variables: str) -> str:
    return run(machine, "bash", "scripts/build.sh", "--features", **variables).stdout.strip()


def test_the_kernel_part_is_built_where_all_that_it_needs_is_there(machine: Path) -> None:
    give(machine, KERNEL_PART)
    assert features(machine) == ""


@pytest.mark.parametrize("name", KERNEL_PART)
def test_the_kernel_part_is_left_out_when_something_is_missing(machine: Path, name: str) -> None:
    give(machine, KERNEL_PART)
    (machine / name).unlink()
    assert features(machine) == "--no-default-features"


def test_the_kernel_part_is_left_out_where_clang_has_no_bpf(machine: Path) -> None:
    give(machine, {**KERNEL_PART, "clang": "echo '    x86-64     - 64-bit X86'"})
    assert features(machine) == "--no-default-features"


def test_the_kernel_part_is_left_out_elsewhere_and_when_it_is_not_wanted(machine: Path) -> None:
    give(machine, KERNEL_PART)
    assert features(machine, KERNEL_PART="no") == "--no-default-features"
    (machine / "uname").unlink()
    give(machine, {"uname": "echo Darwin"})
    assert features(machine) == "--no-default-features"


def test_without_root_it_continues_when_only_the_kernel_part_and_traffic_are_missing(machine: Path) -> None:
    give(machine, ANY_BUILD | USER)
    done = packages(machine)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")
    kernel_part, demo = (line for line in done.stdout.splitlines() if "missing: " in line)
    assert "without the kernel part" in kernel_part
    assert kernel_part.partition("missing: ")[2].startswith("clang libelf-dev llvm pkg-config zlib1g-dev")
    assert demo.endswith("the demonstration will run in the simulator; missing: iperf3\x1b[0m")
    assert "not root" in done.stdout


def test_without_root_it_ends_when_nothing_can_be_built(machine: Path) -> None:
    give(machine, USER)
    done = packages(machine)
    assert done.returncode == 1
    assert "missing: build-essential" in done.stderr
    assert "not root" in done.stderr


APT_GET = 'if [ "$1" = install ]; then "$POLICY_RC_D"; echo "policy $?" >&2; fi; echo "$@" >&2'
ADMIN = {**USER, "id": "echo 0", "env": 'shift; exec "$@"', "apt-get": APT_GET, "systemctl": ""}
SERVICES = {"mosquitto", "nginx-light", "prometheus"}


@pytest.mark.parametrize("step", ["install_packages", "install_development_packages"])
def test_root_gets_each_missing_package_once_and_no_service(machine: Path, tmp_path: Path, step: str) -> None:
    policy = tmp_path / "policy-rc.d"
    give(machine, ADMIN)
    done = packages(machine, step, POLICY_RC_D=str(policy))
    assert done.returncode == 0, done.stderr
    installed = done.stderr.splitlines()[-1].split()
    assert installed[:4] == ["install", "-q", "-y", "--no-install-recommends"]
    assert len(installed) == len(set(installed))
    if step == "install_packages":
        assert {"build-essential", "clang", "iperf3", "libelf-dev", "zlib1g-dev"} <= set(installed)
        assert not SERVICES & set(installed), "the demonstration needs no packages with services"
    else:
        assert SERVICES & set(installed)  # those in sbin may be here
    assert "policy 101" in done.stderr, "services may start"
    assert "starts no service" in done.stdout
    assert not policy.exists()


def test_all_packages_are_named_before_one_is_installed(machine: Path, tmp_path: Path) -> None:
    give(machine, ADMIN)
    said = packages(machine, "packages_to_install")
    assert said.stderr == "", "nothing is installed yet"
    named = said.stdout.partition("as root: ")[2].partition(";")[0].split()
    done = packages(machine, POLICY_RC_D=str(tmp_path / "policy-rc.d"))
    assert named == done.stderr.splitlines()[-1].split()[4:]


@pytest.mark.parametrize("script", sorted((ROOT / "scripts").glob("*.sh")), ids=lambda path: path.name)
def test_scripts_can_be_read(script: Path) -> None:
    shell = "sh" if script.read_text().startswith("#!/bin/sh") else "bash"
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
