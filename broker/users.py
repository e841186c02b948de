"""Makes users of a broker: `python -m broker.users FILE USER...`, in the format of `mosquitto_passwd`.

It needs no Mosquitto. Passwords come from the terminal, or one a line from standard input.
"""

from __future__ import annotations

import base64
import getpass
import hashlib
import os
import secrets
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from broker.errors import BusError
from broker.topics import check_sender

ITERATIONS: Final = 101
"""Rounds of PBKDF2, as many as Mosquitto's own: each connection waits for them."""


def password_line(user: str, password: str) -> str:
    """Return a line of a password file of Mosquitto 2, with a salt of its own."""
    salt = secrets.token_bytes(12)
    made = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS)
    fields = "$".join(base64.b64encode(part).decode() for part in (salt, made))
    return f"{user}:$7${ITERATIONS}${fields}\n"


def set_passwords(file: Path, passwords: dict[str, str]) -> None:
    """Add users to a password file, or give them new passwords; others stay. Only its owner can read it.

    Raises:
        BusError: `bus.no_password_file`, if the file cannot be read or written, and `bus.bad_name`.
    """
    for user in passwords:
        check_sender(user)
    try:
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        kept = [line for line in lines if line.partition(":")[0] not in passwords]
        new = file.with_name(file.name + ".new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.writelines(kept)
            out.writelines(password_line(user, password) for user, password in passwords.items())
        new.replace(file)
    except (OSError, ValueError) as error:
        raise BusError(
            "bus.no_password_file", f"cannot change the password file: {error}", str(file)
        ) from error


def main(
    file: Annotated[Path, typer.Argument(help="Password file; made if there is none.")],
    users: Annotated[list[str], typer.Argument(help="Users to add, or to give new passwords.")],
) -> None:
    """Add users to a password file of the embedded broker or of Mosquitto."""
    try:
        set_passwords(file, {user: _ask(user) for user in users})
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _ask(user: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"password of {user}: ")
    return sys.stdin.readline().rstrip("\n")


if __name__ == "__main__":
    typer.run(main)
