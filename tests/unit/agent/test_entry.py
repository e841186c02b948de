from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.abc import MetaPathFinder
from typing import Any

import pytest

from ccplane.agent import entry


class CtrlC(MetaPathFinder):
    """Raise KeyboardInterrupt in the middle of an import."""

    def find_spec(self, fullname: str, *_others: Any) -> None:
        if fullname == "ccplane.agent.cli":
            raise KeyboardInterrupt


def test_interrupt_while_it_imports_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [CtrlC(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "ccplane.agent.cli", raising=False)
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_that_end_the_process_leave_blocks(number: signal.Signals) -> None:
    program = (
        "import sys, time, types\n"
        "from ccplane.agent import entry\n"
        "def run():\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        while True:\n"
        "            time.sleep(0.01)\n"
        "    finally:\n"
        "        print('cleaned up')\n"
        "sys.modules['ccplane.agent.cli'] = types.SimpleNamespace(main=run)\n"
        "entry.main()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, number)
        assert process.stdout.read() == "cleaned up\n"
    assert process.returncode == 128 + number
