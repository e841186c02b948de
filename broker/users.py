"""`ccp bus user`: add, remove and list the users of a broker, in the format of `mosquitto_passwd`.

Mosquitto is not needed. Passwords are read from the terminal, or from standard input, one per line.
"""

from __future__ import annotations

import base64
import contextlib
import getpass
import hashlib
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from broker.errors import BusError
from broker.topics import check_sender
from ccplane.base import options

ITERATIONS: Final = 101
"""Rounds of PBKDF2, as in Mosquitto; every connection waits until the broker has computed them."""


def password_line(user: str, password: str) -> str:
    """Return a line for a password file of Mosquitto 2, with a new salt."""
    salt = secrets.token_bytes(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS)
    fields = "$".join(base64.b64encode(part).decode() for part in (salt, digest))
    return f"{user}:$7${ITERATIONS}${fields}\n"


def set_passwords(file: Path, passwords: dict[str, str]) -> None:
    """Add users to a password file, or change their passwords. Only the file's owner can read it.

    Raises:
        BusError: `bus.no_password_file`, if the file cannot be read or written, `bus.bad_name`, and
            `bus.empty_password`.
    """
    for user, password in passwords.items():
        check_sender(user)
        if not password:
            raise BusError(
                "bus.empty_password",
                f"the password of `{user}` is empty",
                str(file),
                fix="type a password, or send one line per user to standard input",
            )
    kept = [line for line in _lines(file) if _user(line) not in passwords]
    _write(file, [*kept, *(password_line(user, password) for user, password in passwords.items())])


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines(keepends=True) if file.exists() else []
    except (OSError, ValueError) as error:
        raise _no_file("read", file, error) from error


def _write(file: Path, lines: list[str]) -> None:
    try:
        new = file.with_name(file.name + ".new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.writelines(lines)
        new.replace(file)
    except OSError as error:
        raise _no_file("write", file, error) from error


def _no_file(what: str, file: Path, error: Exception) -> BusError:
    return BusError("bus.no_password_file", f"cannot {what} the password file: {error}", str(file))


def _user(line: str) -> str:
    return line.partition(":")[0]


app = typer.Typer(
    help="Add, remove and list the users of a broker.", no_args_is_help=True, add_completion=False
)

_File = Annotated[Path, typer.Argument(metavar="FILE", help="Password file, as for `ccp bus serve --users`.")]
_Users = Annotated[list[str], typer.Argument(metavar="USER", help="Names of users.")]


@app.command(epilog=options.examples("ccp bus user add users host-a recv-b"))
def add(file: _File, users: _Users) -> None:
    """Add users, or change their passwords; prompts for each password. The file is created if missing."""
    with _reported():
        set_passwords(file, {user: _ask(user) for user in users})


@app.command(epilog=options.examples("ccp bus user remove users recv-b"))
def remove(file: _File, users: _Users) -> None:
    """Remove users. A running broker accepts removed users until it is restarted."""
    with _reported():
        lines = _lines(file)
        if unknown := [user for user in users if user not in map(_user, lines)]:
            raise BusError(
                "bus.unknown_user",
                f"no user `{unknown[0]}`",
                str(file),
                fix=f"list the users with `ccp bus user list {file}`",
            )
        _write(file, [line for line in lines if _user(line) not in users])


@app.command("list", epilog=options.examples("ccp bus user list users"))
def list_(file: _File) -> None:
    """List the users."""
    with _reported():
        for line in _lines(file):
            typer.echo(_user(line))


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _ask(user: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"password of {user}: ")
    return sys.stdin.readline().rstrip("\n")


if __name__ == "__main__":
    app()
