from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service_manager import ServiceManager

WATCHDOG_S = 1.0


@pytest.mark.skipif(sys.platform != "linux", reason="measures what Linux tells")
def test_a_receiver_reports_its_manager_how_it_is(tmp_path: Path) -> None:
    with ServiceManager(tmp_path / "notify", watchdog_s=WATCHDOG_S) as systemd:
        receiver = subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-c",
                    "from ccplane.agent.entry import main; main()",
                    "telemetry",
                    "receive",
                ),
                *("--quiet", "--no-kernel-probe", "--interval", "60000"),
            ],
            stderr=subprocess.DEVNULL,
            env={**os.environ, **systemd.environment},
        )
        try:
            systemd.wait_for("READY", 30)
            assert systemd.wait_for("STATUS", 5).endswith(" peers")
            systemd.listen(3 * WATCHDOG_S)  # an interval is much longer
            assert len(systemd.times_of("WATCHDOG")) >= 3
            os.kill(receiver.pid, signal.SIGSTOP)
            systemd.listen(0.1)
            assert systemd.listen(WATCHDOG_S) == []
            os.kill(receiver.pid, signal.SIGCONT)
            receiver.send_signal(signal.SIGTERM)
            assert systemd.wait_for("STOPPING", 5) == "1"
            assert receiver.wait(5) == 0
        finally:
            receiver.kill()
            receiver.wait()
