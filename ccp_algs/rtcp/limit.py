"""Messages to and from the datapath's extension `rate_limits`."""

from __future__ import annotations

import dataclasses
import struct
from typing import Final

from ccp_algs.rtcp.options import Options
from ccp_algs.rtcp.remote import Remote

EXTENSION: Final = "rate_limits"
"""Name of the extension."""

LIMIT_STATES: Final = ("unlimited", "limited", "capped", "probing", "raised", "gone", "no_room", "apart")
"""`enum rtcp_verdict` of native/ccp-rtcp/src/bpf/rtcp.h, in its order."""

LIMITED_STATES: Final = ("limited", "capped", "probing", "raised")
"""The states in which there is a limit."""

CAP_CWND: Final = 1
"""Flag in a message: bound the window."""
CAP_RATE: Final = 2
"""Flag in a message: bound the pacing rate."""

_HEAD: Final = struct.Struct("=I4x")
"""The fields before the options in a `struct rtcp_message` of native/ccp-rtcp."""
_ROW: Final = struct.Struct("=QQQQIII24s4x")


def message(options: Options, *, cwnd: bool = False, rate: bool = False) -> bytes:
    """Return the message that makes the extension look for a limit of the flow's client and apply it.

    Args:
        options: Parameters of detector and limiter.
        cwnd: Bound the window.
        rate: Bound the pacing rate; an unpaced flow is then paced.
    """
    return _HEAD.pack(CAP_CWND * cwnd + CAP_RATE * rate) + options.to_bytes()


@dataclasses.dataclass(frozen=True, slots=True)
class RateLimit:
    """The token bucket that limits a flow's client, as far as known.

    Attributes:
        state: `limited`: there is a limit, and enough tokens; `capped`, `probing`, `raised`: sending is
            bounded by the rate, by a little more, or by much more; `gone`: the limit was lifted; `no_room`:
            the table of clients is full, and no limit is looked for; `apart`: connections cannot share a
            bucket, and are treated as separate clients from now on.
        bucket_bytes: Estimated bucket size [bytes].
        rate_bytes_per_s: Estimated rate limit [bytes/s].
        tokens_bytes: Estimated level of the bucket [bytes].
        active_flows: Number of flows to the client that have data to send.
        client: Name of the client, as in `Remote.name`; all flows to it share the limit.
    """

    state: str
    bucket_bytes: int
    rate_bytes_per_s: int
    tokens_bytes: int
    active_flows: int
    client: str

    @classmethod
    def from_bytes(cls, raw: bytes) -> RateLimit:
        """Parse a `struct rtcp_row` of native/ccp-rtcp."""
        _t_us, bucket, rate, tokens, _netns, verdict, active_flows, remote = _ROW.unpack(raw)
        client = Remote.from_bytes(remote).name
        return cls(LIMIT_STATES[verdict], bucket, rate, tokens, active_flows, client)

    def to_bytes(self) -> bytes:
        """Return the `struct rtcp_row` the extension would send, with time 0 and no network namespace."""
        remote = Remote.named(self.client).to_bytes()
        verdict, numbers = LIMIT_STATES.index(self.state), (self.bucket_bytes, self.rate_bytes_per_s)
        return _ROW.pack(0, *numbers, self.tokens_bytes, 0, verdict, self.active_flows, remote)

    @property
    def seeks(self) -> bool:
        """Whether the algorithm should probe for more bandwidth than the limit."""
        return self.state in ("probing", "raised")
