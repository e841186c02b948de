"""The kernel's simulated radios (mac80211_hwsim): an access point is hostapd, a station is a device.

Frames pass through Linux's whole Wi-Fi stack: scanning, association, aggregation, rate control. Only the air
is simulated, and it loses nothing.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from experiments.mininet_wifi.errors import WifiError
from experiments.netlab import Host
from experiments.netlab.process import which

MODULE: Final = "mac80211_hwsim"
DEVICE: Final = "wlan0"
"""Name of a radio's device in its host."""

CHANNELS: Final = {1: 2412, 6: 2437, 11: 2462}
"""Channels of 2.4 GHz that do not overlap -> frequency [MHz]."""

NO_MODULE: Final = (
    f"boot a kernel with the module {MODULE}, which cloud kernels often lack; in a checkout,"
    " `make test-wifi` boots one in a virtual machine"
)
_PHYS: Final = Path("/sys/class/ieee80211")
TIMEOUT_S: Final = 60.0
"""Timeout for an access point to start and for a station to join; it takes seconds on an emulated processor
[s]."""
AGAIN_S: Final = 10.0
"""Time after which a station that has not joined tries again [s]."""
TRIES: Final = 6
"""Number of attempts of a station to join, including the last one, which waits longer."""


@contextlib.contextmanager
def simulated_radios(count: int) -> Iterator[list[str]]:
    """Load simulated radios for a `with` block.

    Yields:
        Their names, such as `phy0`; each has a device in the machine's own namespace.

    Raises:
        WifiError: `wifi.no_radios`, if the kernel has none, or they are loaded already.
    """
    if Path("/sys/module", MODULE).exists():
        raise no_radios(
            "the module is loaded already", f"if nothing uses it, unload it: `modprobe -r {MODULE}`"
        )
    loaded = subprocess.run(
        [which("modprobe", MODULE), MODULE, f"radios={count}"], capture_output=True, text=True, check=False
    )
    if loaded.returncode:
        raise no_radios(loaded.stderr.strip())
    try:
        radios = [phy.name for phy in _PHYS.iterdir() if (phy / "device/driver").resolve().name == MODULE]
        yield sorted(radios, key=lambda name: int(name.removeprefix("phy")))
    finally:
        subprocess.run(["modprobe", "-r", MODULE], capture_output=True, check=False)


def give_radio(radio: str, host: Host) -> None:
    """Move a radio into a host, and rename its device to DEVICE.

    Raises:
        LabError: `lab.command_failed` or `lab.no_command`.
    """
    (device,) = [path.name for path in (_PHYS / radio / "device/net").iterdir()]
    # After the move, the radio is invisible here, so iw runs where both namespaces are visible.
    iw = ["iw", "phy", radio, "set", "netns", "name", host.namespace]
    subprocess.run([which("iw", f"host {host.name}"), *iw[1:]], check=True)
    host.run(["ip", "link", "set", device, "name", DEVICE])


def start_access_point(host: Host, name: str, channel: int) -> None:
    """Run hostapd on a host's radio until the lab closes, and wait until the access point is up.

    Raises:
        WifiError: `wifi.not_up`.
        LabError: `lab.no_command`, without hostapd.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "hostapd.conf")
        config.write_text(hostapd_config(name, channel))
        with Path(folder, "log").open("w+") as log:
            running = host.popen(["hostapd", str(config)], stdout=log, stderr=log)

            def is_up() -> bool:
                return "AP-ENABLED" in Path(log.name).read_text() or running.poll() is not None

            if not _wait(is_up, TIMEOUT_S) or running.poll() is not None:
                raise WifiError(
                    "wifi.not_up",
                    f"the access point `{name}` did not start",
                    f"host {host.name}",
                    Path(log.name).read_text().strip()[-2000:] or "hostapd printed nothing",
                    "run hostapd manually in the host",
                )


def hostapd_config(name: str, channel: int) -> str:
    """Return a configuration for hostapd: an open 802.11n network on one channel of 20 MHz."""
    settings = {
        "interface": DEVICE,
        "driver": "nl80211",
        "ssid": name,
        "hw_mode": "g",
        "channel": channel,
        "ieee80211n": 1,
        "wmm_enabled": 1,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def join(host: Host, name: str, channel: int) -> None:
    """Let a host's radio join a network, and wait until it has.

    Raises:
        WifiError: As in `wait_joined`.
        LabError: `lab.command_failed` or `lab.no_command`.
    """
    host.run(["ip", "link", "set", DEVICE, "up"])
    connect = ["iw", "dev", DEVICE, "connect", name, str(CHANNELS[channel])]
    host.run(connect)
    # mac80211 gives up after a fraction of a second without an answer, as on a busy machine.
    for _ in range(TRIES - 1):
        if _wait(lambda: _is_joined(host, DEVICE, name), AGAIN_S):
            return
        host.run(connect, check=False)
    wait_joined(host, DEVICE, name)


def wait_joined(host: Host, device: str, name: str) -> None:
    """Wait until a station has joined a network that it is looking for.

    Raises:
        WifiError: `wifi.not_joined`.
    """
    if not _wait(lambda: _is_joined(host, device, name), TIMEOUT_S):
        raise WifiError(
            "wifi.not_joined",
            f"the station did not join `{name}`",
            f"host {host.name}, device {device}",
            f"`iw dev {device} link` showed no association within {TIMEOUT_S:g} s",
            "check whether hostapd runs, and the output of `iw dev` in the host",
        )


def _is_joined(host: Host, device: str, name: str) -> bool:
    return f"SSID: {name}" in host.run(["iw", "dev", device, "link"]).stdout


def no_radios(why: str, fix: str = NO_MODULE) -> WifiError:
    """Return the error for radios that are missing or in use."""
    return WifiError(
        "wifi.no_radios", "simulated radios are not available", f"kernel module {MODULE}", why, fix
    )


def _wait(done: Callable[[], bool], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.2)
    return True
