"""The service of `ccp rtcp attach`."""

from __future__ import annotations

import re
from pathlib import Path

from ccplane.agent import service
from ccplane.agent.features.rtcp.tables import KEPT_IN
from ccplane.agent.service import Service
from tests.unit.agent import test_service

programs = test_service.programs


def test_r_tcp_has_its_pins_and_no_password(tmp_path: Path) -> None:
    service.install((Service.RTCP, Service.AGENT), tmp_path)
    etc = tmp_path / "etc"
    assert (etc / "ccplane/rtcp.env").exists()
    assert not (etc / "ccplane/rtcp.password").exists()
    (writable,) = re.findall(
        r"^ReadWritePaths=(.*)", (etc / "systemd/system/ccplane-rtcp.service").read_text(), re.M
    )
    assert writable == KEPT_IN
    service.remove((Service.AGENT,), tmp_path)
    assert f"d {KEPT_IN} 0700 ccplane-rtcp ccplane-rtcp" in (etc / "tmpfiles.d/ccplane.conf").read_text()
    service.remove((Service.RTCP,), tmp_path)
    assert test_service.units(tmp_path) == []
    assert not (etc / "tmpfiles.d/ccplane.conf").exists()
