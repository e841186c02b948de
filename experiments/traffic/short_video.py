"""Short videos, as traffic of a flow: our own client that behaves like an app, and nginx."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from experiments.netlab.host import Host
from experiments.netlab.spec import Family
from experiments.traffic import swipes
from experiments.traffic.nginx import Nginx
from experiments.traffic.running import ObjectResult, Played
from experiments.traffic.served import Client, ServedTraffic
from experiments.traffic.spec import ShortVideo
from experiments.traffic.viewer import Told, Viewer

_PROGRAM: Final = str(Path(__file__).with_name("swipes.py"))
_SIZES_BYTES: Final = (swipes.COVER_BYTES, *map(swipes.piece_bytes, swipes.BITRATES_BYTES_PER_S))


class ShortVideoTraffic(ServedTraffic):
    """Short videos under way."""

    def __init__(
        self,
        spec: ShortVideo,
        sender: Host,
        receiver: Host,
        *,
        congestion: str,
        family: Family = "ipv4",
        duration_s: float,
        seed: int = 1,
        port: int | None = None,
    ) -> None:
        """Start server and client; arguments and errors as of `start_traffic`."""
        server = Nginx(sender, port=port, family=family, congestion=congestion, sizes_bytes=_SIZES_BYTES)
        order = {
            "address": sender.address(family),
            "port": server.port,
            "videos": spec.videos,
            "view_s": spec.view_s,
            "connections": spec.connections,
            "seed": seed,
        }
        clients = [functools.partial(_app, receiver, order)]
        super().__init__(server, sender, clients, duration_s=duration_s)


def _app(host: Host, order: Mapping[str, Any], base_url: str) -> Client:
    running = host.popen(
        [sys.executable, "-I", "-S", _PROGRAM, json.dumps(order)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return Viewer(
        running,
        running.stdout,
        _message,
        where=f"host {host.name}: swipes of videos from {base_url}",
        hint="the program is experiments/traffic/swipes.py",
        objects=lambda told: [ObjectResult(**one) for one in _of(told, "download")],
        playback=lambda told: [Played(**one) for one in _of(told, "played")],
    )


def _message(line: str) -> Mapping[str, Any] | None:
    return json.loads(line) if line.startswith("{") else None


def _of(told: Told, kind: str) -> list[dict[str, Any]]:
    return [{name: one[name] for name in one if name != "kind"} for one in told if one["kind"] == kind]
