from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ccplane.agent.user import become
from ccplane.base.errors import UsageError


def test_a_user_who_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        become("no-such-user", str(tmp_path), tmp_path)
    assert caught.value.slug == "user.unknown"
    assert "useradd" in caught.value.fix


def test_none_else_than_root_becomes_another(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from ccplane.agent.user import become\n"
        "from ccplane.base.errors import UsageError\n"
        "if os.geteuid() == 0:\n    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n    become('root', sys.argv[1], Path(sys.argv[1]))\n"
        "except UsageError as error:\n    print(error.slug)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "none")], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("user.not_permitted", "")
