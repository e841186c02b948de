"""What the datapath's extension `rate_limits` is told, and what it tells of a flow's client."""

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
"""Of these, those in which there is a limit."""

CAP_CWND: Final = 1
"""Bit of a letter: the window is bounded."""
CAP_RATE: Final = 2
"""Bit of a letter: the pacing rate is bounded."""

_HEAD: Final = struct.Struct("=I4x")
"""What stands before the options in a `struct rtcp_letter` of native/ccp-rtcp."""
_ROW: Final = struct.Struct("=QQQQIII24s4x")


def letter(options: Options, *, cwnd: bool = False, rate: bool = False) -> bytes:
    """Return the letter that has the extension look for a limit of a flow's client, and keep within it.

    Args:
        options: Parameters of detector and limiter.
        cwnd: Bound the window.
        rate: Bound the pacing rate; a flow that is not paced is paced then.
    """
    return _HEAD.pack(CAP_CWND * cwnd + CAP_RATE * rate) + options.to_bytes()


@dataclasses.dataclass(frozen=True, slots=True)
class RateLimit:
    """What is known of the token bucket that limits a flow's client.

    Attributes:
        state: `limited`: there is a limit, and tokens enough not to mind; `capped`, `probing`, `raised`: what
            is sent is bounded by the rate, by a little more, or by much more; `gone`; `no_room`: the table of
            clients is full, and no limit is looked for; `apart`: connections cannot share a bucket, and are
            clients of their own from now on.
        bucket_bytes: Estimated bucket size [bytes].
        rate_bytes_per_s: Estimated rate limit [bytes/s].
        tokens_bytes: Estimated level of the bucket [bytes].
        active_flows: Flows to the client that have something to send.
        client: Name of the client, as `Remote.name` has it: all flows to it share the limit.
    """

    state: str
    bucket_bytes: int
    rate_bytes_per_s: int
    tokens_bytes: int
    active_flows: int
    client: str

    @classmethod
    def from_bytes(cls, octets: bytes) -> RateLimit:
        """Return what a `struct rtcp_row` of native/ccp-rtcp says."""
        _t_us, bucket, rate, tokens, _netns, verdict, active_flows, remote = _ROW.unpack(octets)
        client = Remote.from_bytes(remote).name
        return cls(LIMIT_STATES[verdict], bucket, rate, tokens, active_flows, client)

    def to_bytes(self) -> bytes:
        """Return it as the extension tells it, at time 0 in a network namespace that is not known."""
        remote = Remote.named(self.client).to_bytes()
        verdict, numbers = LIMIT_STATES.index(self.state), (self.bucket_bytes, self.rate_bytes_per_s)
        return _ROW.pack(0, *numbers, self.tokens_bytes, 0, verdict, self.active_flows, remote)

    @property
    def seeks(self) -> bool:
        """Whether the algorithm is to find out if more gets through than the limit lets."""
        return self.state in ("probing", "raised")
