"""Errors of the bus. Each has a slug for programs and a sentence for people, and says where, why, what to do.

They are defined here because `broker` imports nothing of ours; `telemetry` derives its own from
`ExplainedError`.
"""

from __future__ import annotations

from typing import Final

SLUGS: Final[dict[str, str]] = {
    "bus.bad_name": "a sender or peer cannot be a level of a topic",
    "bus.bad_url": "the address of a broker cannot be read",
    "bus.broker_died": "the embedded broker ended before it was told to",
    "bus.no_password_file": "the file with users and passwords cannot be read",
    "bus.not_built": "the native module with the embedded broker is missing",
    "bus.not_connected": "the broker did not take the connection in time",
    "bus.port_taken": "the port of the embedded broker cannot be listened on",
    "bus.tls_files": "a certificate or key for TLS cannot be used",
    "bus.unknown_kind": "there is no topic for such a message",
}
"""Slug -> what it means; each has a test that names it."""


class ExplainedError(Exception):
    """Base of errors that explain themselves.

    Attributes:
        slug: Stable name for programs, `area.what`.
        message: What is wrong, one sentence.
        where: Place; empty if there is none.
        why: Reason; may be empty.
        fix: What to do next; may be empty.
    """

    def __init__(self, slug: str, message: str, where: str = "", why: str = "", fix: str = "") -> None:
        """Keep the five parts; all are also in `args`, so that the error survives pickling."""
        super().__init__(slug, message, where, why, fix)
        self.slug = slug
        self.message = message
        self.where = where
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        """Return the error as people read it; empty parts are left out."""
        parts = [f"{self.slug}: {self.message}"]
        for label, text in (("at", self.where), ("why", self.why), ("fix", self.fix)):
            if text:
                parts.append(f"  {label:<4} " + text.replace("\n", "\n       "))
        return "\n".join(parts)


class BusError(ExplainedError):
    """The bus cannot do what it was asked for."""
