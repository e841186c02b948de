"""Requirements of `ccp regime apply` on this machine, for `ccp doctor`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from ccplane.agent.features.regime.errors import SwitchError
from ccplane.agent.features.regime.sockets import MOUNTS, cgroup_root
from ccplane.agent.names import derived
from ccplane.datapath.ebpf import Capability

DCTCP: Final = "dctcp"


def needs(available: Collection[str], mounts: Path = MOUNTS) -> list[Capability]:
    """Check each requirement, without loading anything."""
    found = next((name for name in (DCTCP, derived(DCTCP)) if name in available), None)
    dctcp = Capability(
        name=DCTCP,
        ok=found is not None,
        required=False,
        detail="not loaded" if found is None else found,
        fix="for ccp regime apply: modprobe tcp_dctcp, or ccp run dctcp",
    )
    try:
        root, fix = str(cgroup_root(mounts)), ""
    except SwitchError as error:
        root, fix = "", error.fix
    cgroup = Capability(
        name="cgroup v2", ok=bool(root), required=False, detail=root or "not mounted", fix=fix
    )
    return [dctcp, cgroup]
