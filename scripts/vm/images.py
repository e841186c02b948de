"""The images of docker-compose.yml, built by podman on a Debian base that is built here."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from scripts.vm.debian import Mirrors
from scripts.vm.places import ROOT
from scripts.vm.problem import VmError, run
from scripts.vm.userland import Userland

COMPOSE: Final = ROOT / "docker-compose.yml"
CONTAINERFILE: Final = ROOT / "containers/Containerfile"
STORE: Final = "store"
"""Folder of the images in podman's format: an emulated processor takes 15 minutes to load an archive."""


def targets(compose: dict[str, Any]) -> dict[str, str]:
    """Return image -> stage of the Containerfile, for the services of a compose file."""
    return {one["image"]: one["build"]["target"] for one in compose["services"].values() if "build" in one}


def make_images(release: Userland, mirrors: Mirrors, into: Path, *, update: bool) -> None:
    """Build all images into a separate store.

    Raises:
        VmError: Without exactly one wheel in `dist`, without root, or if a build fails.
    """
    if os.geteuid() != 0:
        raise VmError(
            "cannot build images", "only root can set the owners of their files", "run this with sudo"
        )
    wheels = list((ROOT / "dist").glob("ccplane-*_x86_64.whl"))
    if len(wheels) != 1:
        raise VmError("dist must have exactly one wheel", f"found: {len(wheels)}", "run `make wheel`")
    base = _make_base(release, mirrors, into, update=update)
    images = targets(yaml.safe_load(COMPOSE.read_text()))
    for image, target in images.items():
        options = ["--file", str(CONTAINERFILE), "--target", target, "--tag", image]
        options += ["--build-arg", f"BASE={base}", *_trusted(into)]
        if update:
            options.append("--no-cache")
        run(["podman", "build", "--isolation", "chroot", *options, str(ROOT)])
    archive, store = into / "images.tar", into / STORE
    shutil.rmtree(store, ignore_errors=True)
    run(["podman", "save", "--quiet", "--multi-image-archive", "--output", str(archive), *images])
    with tempfile.TemporaryDirectory() as state:
        own = ["--root", str(store), "--runroot", state, "--storage-driver", "overlay"]
        run(["podman", *own, "load", "--quiet", "--input", str(archive)])
    archive.unlink()


def _make_base(release: Userland, mirrors: Mirrors, into: Path, *, update: bool) -> str:
    name = f"localhost/ccplane-debian:{release.suite}"
    if update or name not in run(["podman", "images", "--format", "{{.Repository}}:{{.Tag}}"]).split():
        root = into / "base.tar"
        source = f"deb {mirrors.main} {release.suite} main"
        run(["mmdebstrap", "--variant=minbase", "--architectures=amd64", release.suite, str(root), source])
        run(["podman", "import", "--quiet", str(root), name])
        root.unlink()
    return name


def _trusted(folder: Path) -> list[str]:
    """Return options that give pip in a build this machine's certificates, such as a proxy's."""
    certificates = os.environ.get("PIP_CERT")
    if not certificates:
        return []
    settings = folder / "pip.conf"
    settings.write_text("[global]\ncert = /run/certificates.pem\n")
    mounts = {settings: "/etc/pip.conf", Path(certificates).resolve(): "/run/certificates.pem"}
    return [part for here, there in mounts.items() for part in ("--volume", f"{here}:{there}:ro")]
