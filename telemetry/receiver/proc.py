"""Counters of the whole host (network namespace): /proc/net/netstat and /proc/net/snmp6.

The counters read here:

* `ce`: packets that arrived with the ECN codepoint CE: IpExt InCEPkts and Ip6InCEPkts (`TcpExtECNRecvCE`,
  which some scripts mention, does not exist)
* `duplicates`: segments that had arrived before, as reported to their senders in DSACKs: TcpExt
  TCPDSACKOldSent and TCPDSACKOfoSent; not counted for peers without SACK
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from telemetry.receiver.errors import ReceiverError
from telemetry.receiver.series import total

FILES: Final = Path("/proc/thread-self/net")

COUNTERS: Final[dict[str, tuple[str, ...]]] = {
    "ce": ("IpExtInCEPkts", "Ip6InCEPkts"),
    "duplicates": ("TcpExtTCPDSACKOldSent", "TcpExtTCPDSACKOfoSent"),
}
"""Counter -> the kernel's counters that it sums up."""


def parse_netstat(text: str) -> dict[str, int]:
    """Parse a file like /proc/net/netstat: pairs of lines, names above values.

    Returns:
        Group and name, as in `IpExtInCEPkts` -> value. Other lines are skipped.
    """
    found: dict[str, int] = {}
    lines = text.splitlines()
    for head, body in zip(lines[::2], lines[1::2], strict=False):
        group, _, names = head.partition(":")
        same, _, values = body.partition(":")
        if group == same:
            pairs = zip(names.split(), values.split(), strict=False)
            found |= {group + name: int(value) for name, value in pairs if value.isdecimal()}
    return found


def parse_snmp6(text: str) -> dict[str, int]:
    """Parse /proc/net/snmp6: a name and a value in each line."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


class HostCounters:
    """Reads the counters of this host."""

    def __init__(self, files: Path = FILES) -> None:
        """Read the files of a folder: `FILES`, or recorded ones."""
        self._files = files
        self._has_ipv6 = (files / "snmp6").exists()

    def read(self) -> dict[str, int | None]:
        """Return the counters by name; None for those that the kernel lacks.

        Raises:
            ReceiverError: `receiver.no_counters`.
        """
        known = parse_netstat(self._text("netstat"))
        if self._has_ipv6:
            known |= parse_snmp6(self._text("snmp6"))
        return {
            name: total(known.get(part) for part in parts if self._has_ipv6 or not part.startswith("Ip6"))
            for name, parts in COUNTERS.items()
        }

    def _text(self, name: str) -> str:
        try:
            return (self._files / name).read_text()
        except OSError as error:
            raise ReceiverError(
                "receiver.no_counters",
                f"cannot read {self._files / name}",
                why=str(error.strerror),
                fix="mount /proc; a container may hide it",
            ) from error
