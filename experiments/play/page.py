"""The session of a page that runs Python itself: messages as JSON text, for `web/worker.js`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ccplane.base.errors import CcpError
from experiments.play import messages
from experiments.play.messages import Message
from experiments.play.session import Session, Setting

_ACCEPTED: Final[Message] = {"type": "accepted"}

_session: Session | None = None


def handle(text: str) -> str:
    """Do what a message asks; return messages, as a JSON array.

    In addition to the messages of `Session.handle`, `begin` (`setting`, `source`, `params`, `speed`) starts a
    session in place of the one before. The message `accepted` says that the source of the request runs.
    """
    message = msgspec.json.decode(text, type=dict[str, Any])
    return _text(_handled(message))


def advance(seconds: float) -> str:
    """Let time pass; return messages, as a JSON array."""
    return _text([] if _session is None else _session.advance(seconds))


def _text(said: list[Message]) -> str:
    return msgspec.json.encode(said).decode()


def _handled(message: dict[str, Any]) -> list[Message]:
    global _session
    if message["type"] == "begin":
        if _session is not None:
            _session.close()
            _session = None
        try:
            setting = Setting.of(message["setting"])
            speed, params = message["speed"], message["params"]
            _session = Session(setting, message["source"], params=params, speed=speed)
        except CcpError as error:
            return messages.failure(0.0, str(error))
        return [_ACCEPTED, _session.state()]
    if _session is None:
        return []
    said = _session.handle(message)
    is_refused = any(one["type"] == "error" for one in said)
    return said if is_refused or "source" not in message else [_ACCEPTED, *said]
