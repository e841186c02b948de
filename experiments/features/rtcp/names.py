"""Names of R-TCP in scenarios and results."""

from __future__ import annotations

from typing import Final

NAME: Final = "rate-limits"
"""Prefix of R-TCP's files in a result."""
CONGESTION: Final = {"rtcp/cubic": "rtcp_cubic", "rtcp/bbr": "rtcp_bbr"}
"""Name in scenarios -> name of the sockets' congestion control."""
