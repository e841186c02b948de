"""Adaptive-bitrate video as traffic of a flow: dash.js in headless Chromium plays it from nginx.

The browser reports downloads and playback on its console, not over the network. The page and dash.js also
come from the flow's sender.
"""

from __future__ import annotations

import functools
import subprocess
import time
import urllib.parse
from typing import Final

from ccplane.base import clock
from experiments.netlab.host import Host
from experiments.netlab.spec import Family
from experiments.traffic import media, playback
from experiments.traffic.nginx import Nginx
from experiments.traffic.served import ServedClient, ServedTraffic
from experiments.traffic.spec import Dash
from experiments.traffic.viewer import Viewer

_OPTIONS: Final = (
    "--headless",
    "--no-sandbox",  # root cannot have a sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--mute-audio",
    "--autoplay-policy=no-user-gesture-required",
    "--no-proxy-server",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-breakpad",
    "--enable-logging=stderr",
)


class DashTraffic(ServedTraffic):
    """A running video."""

    def __init__(
        self,
        spec: Dash,
        sender: Host,
        receiver: Host,
        *,
        congestion: str,
        family: Family = "ipv4",
        duration_s: float,
        port: int | None = None,
    ) -> None:
        """Start server and browser; arguments and errors as in `start_traffic`."""
        media.require(f"host {receiver.name}: {media.BROWSER}")
        files = media.files(spec.segments)
        server = Nginx(sender, port=port, family=family, congestion=congestion, files=files)
        clients = [functools.partial(_browser, spec, receiver, server)]
        super().__init__(server, sender, clients, duration_s=duration_s)


def _browser(spec: Dash, host: Host, server: Nginx, base_url: str) -> ServedClient:
    page = f"{base_url}/player.html#abr={spec.abr}&buffer_s={spec.buffer_s:g}"
    profile = f"--user-data-dir={server.folder / 'profile'}"
    # Only the page may use the network; browsers also check for updates, among others.
    names = f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {urllib.parse.urlsplit(base_url).hostname}"
    running = host.popen([media.BROWSER, *_OPTIONS, names, profile, page], stderr=subprocess.PIPE)
    clock_us = (clock.now_ns() - time.time_ns()) // 1000
    sizes_bytes = media.sizes_bytes()
    return Viewer(
        running,
        running.stderr,
        playback.message,
        where=f"host {host.name}: {media.BROWSER} {page}",
        hint="`make setup-video` installs Chromium and dash.js; the page is in experiments/traffic/player",
        objects=lambda reported: playback.objects(reported, sizes_bytes, clock_us),
        playback=lambda reported: playback.segments(reported, sizes_bytes, 1e3 * time.time()),
    )
