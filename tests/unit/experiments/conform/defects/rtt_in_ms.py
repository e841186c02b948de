"""Planted defect: an RTT in milliseconds where microseconds are meant."""

from paced import Paced, PacedFold


class Milliseconds(Paced):
    """The rate-based algorithm, with a window a thousandth of what it should be."""

    def bdp_bytes(self, rate_bytes_per_s: float, report: PacedFold) -> float:
        """Return the bandwidth-delay product."""
        return rate_bytes_per_s * (report.min_rtt_us // 1000) / 1e6
