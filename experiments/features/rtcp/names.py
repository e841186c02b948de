"""Names of R-TCP in scenarios and results."""

from __future__ import annotations

from typing import Final

NAME: Final = "rate-limits"
"""Of its files in a result."""
CONGESTION: Final = {"rtcp/cubic": "rtcp_cubic", "rtcp/bbr": "rtcp_bbr"}
"""Name of sockets' congestion control by that in scenarios."""
