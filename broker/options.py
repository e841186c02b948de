"""The address of a broker, and the options of a connection."""

from __future__ import annotations

import logging
import ssl
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

from broker.errors import BusError

log = logging.getLogger("ccplane.bus")

PORT: Final = 1883
TLS_PORT: Final = 8883
EXPIRY_WARNING_DAYS: Final = 60
"""Remaining validity of a broker's certificate below which clients warn; as in `make-secrets.sh`."""

_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS options of a connection.

    Attributes:
        ca_file: Trusted certificates; None for those of the system.
        cert_file: Client certificate, if the broker requires one.
        key_file: Key of the client certificate.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return a context that verifies the broker's certificate and name.

        Raises:
            BusError: `bus.tls_files`.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(str(f) for f in (self.ca_file, self.cert_file, self.key_file) if f is not None)
            raise BusError(
                "bus.tls_files",
                f"cannot use a certificate or key: {error}",
                where=files,
                fix="give PEM files that this user can read; docs/telemetry.md shows how to create them",
            ) from error
        return context


@dataclass(frozen=True, slots=True)
class BusOptions:
    """A broker and the options of a connection.

    Attributes:
        host: Name or address.
        port: TCP port.
        user: User name; None for none. It should equal the sender's name: see `broker.topics`.
        password: Password of the user.
        tls: TLS options; None for plain TCP.
        keepalive_s: Idle time after which the connection is tested [s].
        backoff_min_s: First delay before reconnecting [s]; it doubles with every failure.
        backoff_max_s: Maximum delay [s].
        queue_samples: Maximum queued samples; above, the oldest is dropped.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    user: str | None = None
    password: str | None = None
    tls: Tls | None = None
    keepalive_s: int = 15
    backoff_min_s: float = 0.1
    backoff_max_s: float = 10.0
    queue_samples: int = 1000

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Parse a URL.

        Args:
            url: `mqtt://[USER[:PASSWORD]@]HOST[:PORT]`, or `mqtts://` for TLS, with `?ca=FILE` and
                `&cert=FILE&key=FILE` if they differ from the system's. `?password_file=FILE` reads the
                password from the first line of a file, because all users of a machine can see command lines.

        Raises:
            BusError: `bus.bad_url`, or `bus.no_password_file` if the file cannot be read.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
            query = parse_qs(parts.query, strict_parsing=bool(parts.query), keep_blank_values=True)
        except ValueError as error:
            raise _bad_url(url, str(error)) from None
        if parts.scheme not in {"mqtt", "mqtts"}:
            raise _bad_url(url, f"unknown scheme `{parts.scheme}`")
        if not parts.hostname or parts.path not in {"", "/"} or parts.fragment:
            raise _bad_url(
                url, "the host is missing" if not parts.hostname else "nothing may follow the port"
            )
        secure = parts.scheme == "mqtts"
        unknown = set(query) - ({"ca", "cert", "key"} if secure else set()) - {"password_file"}
        if unknown:
            raise _bad_url(url, f"unknown option {', '.join(sorted(unknown))}")
        files = {name: Path(values[-1]) for name, values in query.items()}
        password = None if parts.password is None else unquote(parts.password)
        if "password_file" in files:
            if parts.username is None or password is not None:
                raise _bad_url(url, "password_file needs a user, and replaces the password")
            password = _password_in(files["password_file"])
        if "key" in files and "cert" not in files:
            raise _bad_url(url, "`key` needs `cert`")
        return cls(
            host=unquote(parts.hostname),  # `%25` before the interface of a link-local address (RFC 6874)
            port=port or (TLS_PORT if secure else PORT),
            user=None if parts.username is None else unquote(parts.username),
            password=password,
            tls=Tls(files.get("ca"), files.get("cert"), files.get("key")) if secure else None,
        )

    def as_user(self, user: str, password: str | None) -> Self:
        """Return the same broker for another user."""
        return replace(self, user=user, password=password)

    def __str__(self) -> str:
        """Return the address without the password."""
        scheme = "mqtt" if self.tls is None else "mqtts"
        user = "" if self.user is None else f"{self.user}@"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{user}{host}:{self.port}"


def _password_in(file: Path) -> str:
    try:
        return file.read_text().partition("\n")[0]
    except (OSError, ValueError) as error:
        raise BusError(
            "bus.no_password_file",
            f"cannot read the password: {error}",
            str(file),
            fix="write the password into the first line of a file that this user can read",
        ) from error


def _bad_url(url: str, why: str) -> BusError:
    shown = url
    if "@" in url:  # never show a password
        scheme, _, rest = url.rpartition("@")[0].partition("://")
        shown = f"{scheme}://{rest.partition(':')[0]}:...@{url.rpartition('@')[2]}"
    return BusError(
        "bus.bad_url",
        f"cannot read `{shown}` as the address of a broker",
        why=why,
        fix="write mqtt://[USER[:PASSWORD]@]HOST[:PORT], or mqtts://...?ca=FILE for TLS",
    )


def warn_of_expiry(connection: object, where: BusOptions) -> None:
    """Log a warning if the broker's certificate expires soon; connections without TLS have none."""
    if not isinstance(connection, ssl.SSLSocket):
        return
    expiry = str((connection.getpeercert() or {}).get("notAfter", ""))
    days = (ssl.cert_time_to_seconds(expiry) - time.time()) // _DAY_S if expiry else EXPIRY_WARNING_DAYS
    if days < EXPIRY_WARNING_DAYS:
        log.warning(
            "the certificate of %s expires in %d days (%s), and connections then fail; renew the certificate",
            where,
            days,
            expiry,
        )
