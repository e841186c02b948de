"""Conversion factors for units."""

from __future__ import annotations

from typing import Final

MBIT: Final = 125_000
"""1 Mbit/s [bytes/s]."""
