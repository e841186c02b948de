"""`python -m scripts.vm.compose`: all services of docker-compose.yml, run by podman in a virtual machine.

The images are built here from the wheel in dist; the machine has no network. `compose_inside` runs in it.
Results are kept in docs/results.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from scripts.vm import kernels, userland
from scripts.vm.compose_inside import RESULT
from scripts.vm.images import make_images
from scripts.vm.parts import add_options, gather
from scripts.vm.places import OUT, ROOT
from scripts.vm.problem import need_programs
from scripts.vm.results import keep_run, revision

PACKAGES: Final = ["crun", "dbus", "netavark", "podman", "systemd-sysv"]
PODMAN_COMPOSE: Final = "podman-compose>=1.6,<2"
"""Debian 12 has 1.0.3, which adds a service with `network_mode: host` to the project's network."""
KEPT: Final = ROOT / "docs/results" / RESULT
TIMEOUT_S: Final = 3000
MEMORY_MB: Final = 8192
"""Images and volumes are in memory."""
COMMAND: Final = """modprobe -a overlay tcp_bbr tcp_dctcp
mkdir /mnt/containers
mount -t 9p -o ro,cache=loose,trans=virtio,version=9p2000.L,msize=262144 containers /mnt/containers
mount -o remount,size=70% /var
PYTHONPATH=/mnt/containers/python python -m scripts.vm.compose_inside"""


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.vm.compose", description=__doc__)
    parser.add_argument("--kernel", default="6.12", choices=kernels.KERNELS, help="kernel to boot")
    parser.add_argument("--keep", action="store_true", help="keep the result in docs/results")
    add_options(parser, timeout_s=TIMEOUT_S)
    parser.set_defaults(memory=MEMORY_MB)
    arguments = parser.parse_args()
    need_programs(["podman"], "scripts/setup-vm.sh podman")
    tested = revision()
    parts = gather(arguments, PACKAGES)
    release = userland.choose_userland()
    containers = OUT / "containers"
    containers.mkdir(parents=True, exist_ok=True)
    with parts.console.status("images"):
        make_images(release, parts.mirrors, containers, update=arguments.update)
        userland.install(release, [PODMAN_COMPOSE], containers / "python")
    ended = parts.run(
        arguments.kernel,
        COMMAND,
        OUT / f"out-compose-{arguments.kernel}",
        shares={"containers": containers},
        init="systemd-init.sh",
    )
    result = ended.out / RESULT
    if result.exists():
        parts.console.print_json(result.read_text())
        if arguments.keep and ended.status == 0:
            keep_run(ended, RESULT, "python -m scripts.vm.compose", tested, KEPT)
    return 0 if ended.status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
