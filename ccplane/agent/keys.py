"""CURVE keys for control over TCP: agent and client each know the other's public key.

    DIR/agent.key            public key of the agent        (copy it to clients)
    DIR/agent.key_secret     secret key of the agent        (stays here)
    DIR/client.key_secret    both keys of a client          (copy it to that client)
    DIR/clients/*.key        public keys of all clients that may control the agent

Missing keys are created, so a first client needs only two files copied to it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import zmq
import zmq.auth
from zmq.auth.thread import ThreadAuthenticator

from ccplane.base.errors import UsageError


def make(directory: Path) -> None:
    """Create the missing keys.

    Raises:
        UsageError: `control.bad_keys`, if the directory cannot be written or ZeroMQ lacks CURVE.
    """
    try:
        clients = directory / "clients"
        clients.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = os.umask(0o077)
        try:
            if not (directory / "agent.key_secret").exists():
                zmq.auth.create_certificates(directory, "agent")
            if not any(clients.glob("*.key")):
                public, _ = zmq.auth.create_certificates(directory, "client")
                shutil.move(public, clients / "client.key")
        finally:
            os.umask(before)
    except (OSError, zmq.ZMQError, ValueError) as error:
        raise _bad(directory, error) from error


class Guard:
    """Accepts clients whose public key is in the directory now."""

    def __init__(self, directory: Path) -> None:
        """Read the keys, creating missing ones.

        Raises:
            UsageError: `control.bad_keys`.
        """
        make(directory)
        try:
            self._public, self._secret = zmq.auth.load_certificate(directory / "agent.key_secret")
            zmq.auth.load_certificates(directory / "clients")
        except (OSError, ValueError) as error:
            raise _bad(directory, error) from error
        self._clients = directory / "clients"
        self._keys: dict[str, bytes] = {}
        self._let_in: set[bytes] = set()
        self._authenticator: ThreadAuthenticator | None = None
        self.admitted()

    def admitted(self) -> dict[str, bytes]:
        """Read the clients' public keys; return them by file.

        Keys that the agent's user can no longer read stay valid.
        """
        try:
            names = [name for name in os.listdir(self._clients) if name.endswith(".key")]
        except PermissionError:
            names = list(self._keys)
        except OSError:
            names = []  # removed: no client is admitted
        found = {}
        for name in names:
            try:
                (self._clients / name).open().close()  # pyzmq does not say why it cannot read a file
                found[name] = zmq.auth.load_certificate(self._clients / name)[0]
            except PermissionError:
                if name in self._keys:
                    found[name] = self._keys[name]
            except (OSError, ValueError):
                pass  # removed, or being written
        self._keys = found
        return found

    def callback(self, domain: str, key: bytes) -> bool:
        """Return whether a client may connect; called for each new connection, on another thread."""
        if key not in self.admitted().values():
            return False
        self._let_in.add(key)
        return True

    def revoked(self) -> bool:
        """Return whether the key of an accepted client has been removed since."""
        return not self._let_in <= set(self.admitted().values())

    def start(self, context: zmq.Context[Any]) -> None:
        """Decide about new connections to the sockets of a context."""
        self._let_in.clear()
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(domain="*", credentials_provider=self)

    def protect(self, socket: zmq.Socket[bytes]) -> None:
        """Require keys on a socket."""
        assert self._secret is not None
        socket.curve_publickey, socket.curve_secretkey = self._public, self._secret
        socket.curve_server = True

    def close(self) -> None:
        """Stop the authenticator."""
        if self._authenticator is not None:
            self._authenticator.stop()


def use(socket: zmq.Socket[bytes], directory: Path) -> None:
    """Set the keys of a client's socket.

    Raises:
        UsageError: `control.bad_keys`.
    """
    try:
        public, secret = zmq.auth.load_certificate(directory / "client.key_secret")
        agent, _ = zmq.auth.load_certificate(directory / "agent.key")
    except (OSError, ValueError) as error:
        raise _bad(directory, error) from error
    assert secret is not None
    socket.curve_publickey, socket.curve_secretkey, socket.curve_serverkey = public, secret, agent


def _bad(directory: Path, error: Exception) -> UsageError:
    return UsageError(
        "control.bad_keys",
        f"the keys in {directory} cannot be used",
        where=str(directory),
        why=str(error),
        fix="let an agent create the keys, with ccp run ... --control tcp://HOST:PORT --control-keys DIR; "
        "then copy agent.key and client.key_secret to the client",
    )
