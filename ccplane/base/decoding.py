"""What decoders raise for data that they cannot read."""

from __future__ import annotations

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""Exceptions of msgspec's decoders: `ValueError` if a text is not UTF-8."""

BAD_YAML: Final = (*UNREADABLE, AttributeError, LookupError, TypeError)
"""Further exceptions of PyYAML, for example for a date that does not exist."""
