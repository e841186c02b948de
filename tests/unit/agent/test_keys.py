"""Keys of control clients: revoked and new ones, while the agent runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq.auth

from ccplane.agent.client import Client
from ccplane.agent.control import ControlOptions
from ccplane.agent.keys import make as make_keys
from ccplane.agent.management import managed
from ccplane.base.errors import LoadError
from ccplane.datapath.ebpf import compile_program
from experiments.netlab.sockets import free_port
from tests.unit.agent.test_control import Served


def admit(keys: Path, name: str) -> Path:
    """Make the keys of a client, let it in, and return its directory."""
    own = keys.parent / name
    own.mkdir()
    public, _ = zmq.auth.create_certificates(own, "client")
    shutil.copy(keys / "agent.key", own)
    shutil.copy(public, keys / "clients" / f"{name}.key")
    return own


def test_a_key_that_is_removed_ends_its_sessions_and_a_new_one_needs_no_restart(tmp_path: Path) -> None:
    address, keys = f"tcp://127.0.0.1:{free_port()}", tmp_path / "keys"
    served = Served(tmp_path)
    make_keys(keys)
    mallory, kept = admit(keys, "mallory"), admit(keys, "kept")
    with (
        managed(served.agent_loop, compile_program, ControlOptions(address, keys=keys)),
        ExitStack() as around,
    ):
        thread = threading.Thread(target=served.agent_loop.run)
        thread.start()
        around.callback(thread.join)
        around.callback(served.agent_loop.request_stop)

        def client(own: Path, timeout_s: float = 20) -> Client:
            return around.enter_context(Client(address, keys_dir=own, timeout_s=timeout_s))

        revoked, other = client(mallory), client(kept)
        stream = around.enter_context(revoked.stream(kinds=("event",)))
        others = around.enter_context(other.stream(kinds=("event",)))
        for _ in range(200):  # a subscription takes a moment
            other.params["mine.beta"] = 0.6
            if stream.next(0.05) is not None and others.next(0.05) is not None:
                break
        assert revoked.algorithms() == ["mine"]
        (keys / "clients" / "mallory.key").unlink()
        revoked._timeout_s = 0.5
        with pytest.raises(LoadError) as caught:
            revoked.params["mine.beta"] = 0.7
        assert caught.value.slug == "control.no_answer"
        assert other.algorithms() == ["mine"]
        while stream.next(0) is not None:
            pass
        for _ in range(200):  # the others' subscriptions come back
            other.params["mine.beta"] = 0.6
            if others.next(0.05) is not None:
                break
        else:
            pytest.fail("the stream of a client that is still admitted did not continue")
        assert stream.next(0.2) is None
        with pytest.raises(LoadError):
            client(mallory, 0.5).status()
        assert client(admit(keys, "late")).algorithms() == ["mine"]
        assert other.params["mine.beta"] == 0.6


def test_keys_that_cannot_be_read_any_more_stay_valid(tmp_path: Path) -> None:
    """An agent that started as root may have become a user who cannot read the directory."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    script = """
import os, sys
from pathlib import Path
from ccplane.agent import keys

guard = keys.Guard(Path(sys.argv[1]))
(public,) = guard.admitted().values()
os.seteuid(65534)
assert guard.callback("*", public)
assert not guard.revoked()
os.seteuid(0)
(Path(sys.argv[1]) / "clients" / "client.key").unlink()
assert guard.revoked()
assert not guard.callback("*", public)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "keys")], check=True)
