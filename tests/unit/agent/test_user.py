from __future__ import annotations

import os
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


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_links_in_a_directory_of_the_agents_user_are_not_followed(tmp_path: Path) -> None:
    """The agent's user can create links in its pin directory, and root hands that directory over."""
    victim, directory = tmp_path / "victim", tmp_path / "victims"
    victim.touch()
    directory.mkdir()
    (directory / "file").touch()
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "os.path.ismount = lambda path: True\n"  # stands in for a BPF file system
        "from ccplane.agent.user import _hand_over\n"
        "_hand_over(Path(sys.argv[1]), Path(sys.argv[2]), 65534, 65534)"
    )
    pins, run = tmp_path / "pins", tmp_path / "run"
    (pins / "ccp").mkdir(parents=True)
    (pins / "ccp/link").symlink_to(victim)
    (pins / "ccp/directory").symlink_to(directory)
    run.symlink_to(directory)
    subprocess.run([sys.executable, "-c", script, str(pins), str(run)], check=True, timeout=60)
    assert {path.lstat().st_uid for path in (pins, pins / "ccp", pins / "ccp/link", run)} == {65534}
    assert {path.stat().st_uid for path in (victim, directory, directory / "file")} == {0}


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_user_may_start_the_first_agent_whose_pin_directory_does_not_exist_yet(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "os.path.ismount = lambda path: True\n"  # stands in for a BPF file system
        "from ccplane.agent.user import become\n"
        "become('nobody', sys.argv[1], Path(sys.argv[2]))\n"
        "print(os.getuid())"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "pins"), str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("65534", "")
