"""Types of the compiled part (native/ccp-native): the CCP language, kernel and simulated datapath.

Errors are classes of `ccplane.base.errors`. Windows are in bytes, rates in bytes/s, times in microseconds of
CLOCK_MONOTONIC, or of virtual time in the simulator.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, Literal, Self, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from ccplane.base.errors import CcpError
from ccplane.base.flows import FlowInfo as FlowInfo
from ccplane.base.flows import FlowStats as FlowStats

__all__ = [
    "KERNEL_PART",
    "Batch",
    "Closed",
    "Created",
    "Datapath",
    "EbpfDatapath",
    "EbpfView",
    "FlowInfo",
    "FlowStats",
    "IntNode",
    "Interpreter",
    "IoamCapture",
    "Message",
    "Portable",
    "Program",
    "Report",
    "Reported",
    "RtcpAttached",
    "RtcpClients",
    "RtcpConnection",
    "RtcpDetector",
    "RtcpSimulated",
    "RtcpState",
    "RtcpTransfer",
    "SimDatapath",
    "SimEnv",
    "SocketSwitch",
    "TcpArrivals",
    "TcpTrace",
    "WireFlow",
    "WireLink",
    "clock_offset_ns",
    "compile",
    "drop_capabilities",
    "emulate",
    "facts",
    "from_bytecode",
    "int_overhead_bytes",
    "ioam_build",
    "ioam_decode",
    "ioam_decode_header",
    "ioam_fill",
    "ioam_insert",
    "ioam_remove",
    "portable",
    "probe",
    "rtcp_agent_summary",
    "rtcp_forget",
    "rtcp_remote_of",
    "rtcp_replay",
    "rtcp_tables",
    "rtcp_try_load",
    "rtcp_work",
    "to_bytecode",
    "try_load",
    "verify",
    "wire_messages",
    "wire_values",
]

KERNEL_PART: Final[tuple[str, ...]]
"""Names that exist only in builds with the kernel part (Linux, feature `kernel`); in other builds, access
raises LoadError `load.no_kernel_part`."""

@final
class Program:
    """A compiled fold program."""

    @property
    def uid(self) -> int: ...
    @property
    def source(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def report_fields(self) -> list[str]: ...
    @property
    def control_registers(self) -> list[str]: ...
    @property
    def primitives(self) -> list[str]: ...
    @property
    def n_instructions(self) -> int: ...

@final
class Interpreter:
    """The reference interpreter: runs a fold program ACK by ACK, without a kernel."""

    def __new__(cls, program: Program, now_us: int = 0) -> Interpreter: ...
    def ack(self, now_us: int, primitives: dict[str, int]) -> dict[str, int] | None:
        """Fold one ACK; return the Report registers if the program reports.

        Raises:
            ArithmeticError: If an arithmetic error stops the fold.
            KeyError: If a name is not a primitive.
        """
    def set(self, name: str, value: int) -> None:
        """Set a control register."""
    @property
    def controls(self) -> dict[str, int]: ...
    cwnd_bytes: int
    rate_bytes_per_s: int

@final
class Report:
    """One report; the program's Report registers are also attributes."""

    EVENT_KIND: ClassVar[Literal[0]]

    # facts: report_stub (made by `make facts` from native/ccp-bpf/src/bpf/intf.h)
    @property
    def flow_id(self) -> int: ...
    @property
    def now_us(self) -> int: ...
    @property
    def cwnd_bytes(self) -> int: ...
    @property
    def rate_bytes_per_s(self) -> int: ...
    @property
    def missed(self) -> int: ...
    @property
    def program(self) -> str: ...
    @property
    def timeout(self) -> bool: ...
    @property
    def fold_error(self) -> bool: ...
    # end of facts
    @property
    def program_handle(self) -> int: ...
    def __getattr__(self, name: str) -> int: ...
    def as_dict(self) -> dict[str, int]:
        """Return the Report registers by name, and only these."""

@final
class Created:
    """A flow was created."""

    EVENT_KIND: ClassVar[Literal[1]]

    @property
    def info(self) -> FlowInfo: ...
    @property
    def flow_id(self) -> int: ...
    @property
    def now_us(self) -> int: ...

@final
class Closed:
    """A flow closed."""

    EVENT_KIND: ClassVar[Literal[2]]

    @property
    def flow_id(self) -> int: ...
    @property
    def stats(self) -> FlowStats: ...

@final
class Reported:
    """An event of a flow, from an extension of the datapath."""

    EVENT_KIND: ClassVar[Literal[3]]

    @property
    def flow_id(self) -> int: ...
    @property
    def now_us(self) -> int: ...
    @property
    def extension(self) -> str: ...
    @property
    def raw(self) -> bytes: ...

@final
class Batch:
    """The events of one poll; its times are CLOCK_MONOTONIC, or 0 in a simulation."""

    @property
    def woken_us(self) -> int: ...
    @property
    def taken_us(self) -> int: ...
    def made_us(self) -> dict[int, int]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Created | Closed | Reported | Report]: ...
    def arrays(self) -> list[tuple[int, NDArray[np.void]]]: ...
    def events(self) -> list[Created | Closed | Reported]: ...

@disjoint_base
class Datapath:
    """Base of datapaths; implements `ccplane.datapath.protocol.Datapath`, which documents the methods."""

    @property
    def adopted(self) -> bool: ...
    def register(self, cc_name: str, needs_ecn: bool = False) -> None: ...
    def unregister(self, cc_name: str) -> None: ...
    def registered(self) -> list[str]: ...
    def extend(self, name: str, object: bytes | None = None) -> None: ...
    def install(self, program: Program) -> int: ...
    def uninstall(self, handle: int) -> None: ...
    def poll(self, timeout_ms: int) -> Batch: ...
    def wake(self) -> None: ...
    def update(
        self,
        flow_id: int,
        cwnd_bytes: int | None = None,
        rate_bytes_per_s: int | None = None,
        program: int | None = None,
        registers: dict[str, int] | None = None,
        messages: dict[str, bytes] | None = None,
    ) -> bool: ...
    def update_many(
        self,
        flow_ids: NDArray[np.uint64],
        cwnd_bytes: NDArray[np.uint64],
        rate_bytes_per_s: NDArray[np.uint64],
        registers: dict[str, NDArray[np.uint64]] | None = None,
    ) -> int: ...
    def answered(self, event: Report | Created) -> None: ...
    def answered_many(self, flow_ids: NDArray[np.uint64], now_us: NDArray[np.uint64]) -> None: ...
    def flows(self) -> list[FlowInfo]: ...
    def stats(self, flow_id: int) -> FlowStats | None: ...
    def all_stats(self) -> list[FlowStats]: ...
    def counters(self) -> dict[str, int]: ...
    def heartbeat(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class EbpfDatapath(Datapath):
    """The kernel datapath, owned by this process."""

    def __new__(
        cls,
        pin_dir: str = ...,
        max_flows: int = ...,
        ring_bytes: int = ...,
        heartbeat_timeout_ms: int = ...,
        report_timeout_ms: int = ...,
        max_cwnd_bytes: int = ...,
        take_over: bool = ...,
        max_flows_per_user: int | None = ...,
        max_flows_per_cgroup: int | None = ...,
        reap_after_ms: int = ...,
    ) -> EbpfDatapath: ...
    def resumed(self, extension: str) -> tuple[str, int]:
        """Return what happened to an earlier agent's table in an extension, and its number of entries.

        `nothing`: there was none; `table`: it is still used; `verdicts`: a new table has the important
        entries; `lost`.
        """

    def silences(self) -> tuple[list[tuple[int, int]], int]: ...
    def adopt(self) -> list[str]:
        """Take the flows from the running agent, if there is one.

        Returns sockets, listeners and namespace defaults that keep replaced programs, one line each.
        """

    def hand_over(self) -> tuple[str, int]:
        """Let a successor prepare and take over; call it between two batches.

        The second part is the successor's process id, 0 if there is none. `serves`: keep running; `failed`:
        the successor did not take over; `handed`: it has the flows; `leaves`: it is of an earlier version,
        and waits until this agent ends.
        """

    def is_served(self) -> bool:
        """After a hand-over: wait until the successor serves; return False if it has died before."""

    def release(self) -> None: ...
    @staticmethod
    def unload(pin_dir: str) -> tuple[list[str], list[str], list[str]]: ...
    @staticmethod
    def observe(pin_dir: str) -> EbpfView: ...

@final
class EbpfView:
    """A read-only view of another process's kernel datapath."""

    def flows(self) -> list[FlowInfo]: ...
    def stats(self, flow_id: int) -> FlowStats | None: ...
    def all_stats(self) -> list[FlowStats]: ...
    def counters(self) -> dict[str, int]: ...
    def memory_bytes(self) -> int: ...

@final
class SimDatapath(Datapath):
    """A network with hosts and connections, in virtual time.

    `connect` creates flows. The agent controls flows whose congestion control it has registered (`ccp` is
    registered from the start). Time advances only in `poll` and `run_until`, up to the horizon. No report is
    missed, and no heartbeat is needed.

    Raises:
        CcpError: `emulator.bad_spec` or `emulator.cannot_write`.
    """

    def __new__(
        cls,
        spec_json: bytes,
        *,
        start_us: int = ...,
        latency_us: int = ...,
        max_cwnd_bytes: int = ...,
        host_mtu_bytes: int | None = None,
        samples: bool = True,
        arrivals: bool = False,
    ) -> SimDatapath:
        """Create a world; see `ccplane.datapath.sim.open_world`."""
    @staticmethod
    def bin_bounds_us() -> list[int]: ...
    def connect(self, plan_json: bytes) -> int:
        """Add a flow; return its index.

        Args:
            plan_json: `Plan` in `native/ccp-sim/src/plan.rs`, with times of the virtual clock [us].

        Raises:
            CcpError: `sim.bad_plan`, `sim.no_host` or `sim.no_congestion_control`.
        """
    @property
    def now_us(self) -> int:
        """The virtual time [us]."""
    horizon_us: int
    """End of time [us]."""
    def run_until(self, at_us: int) -> None:
        """Advance time to `at_us`, or the horizon, regardless of events and summaries."""
    @property
    def finished(self) -> bool:
        """Whether all flows have ended."""
    @property
    def packet_events(self) -> int:
        """Number of arrivals of packets at links, transmitters and ends of links since the start."""
    def set_link(self, name: str, direction_json: bytes) -> None:
        """Change a link direction; packets in it stay.

        Raises:
            CcpError: `emulator.no_link` or `emulator.bad_spec`.
        """
    def set_routes(self, routes_json: bytes) -> None:
        """Change routes; packets in links stay there.

        Raises:
            CcpError: `emulator.bad_spec`.
        """
    def links(self) -> bytes:
        """Return the state and counters of each link direction, as the emulator's `stats`."""
    def rows(self) -> NDArray[np.void]:
        """Return samples of senders' sockets since the last call, in the format of `TcpTrace.drain`.

        `netns` is 1 + the index of the host. A socket that received nothing since its last row has no row.
        """
    def latest(self) -> list[tuple[int, int, int, int, int]]:
        """Return the last sample of each socket that `rows` would return, without NumPy.

        Each has the destination port, the window [bytes], the smoothed RTT [us; 0 if unknown], the MSS
        [bytes], and the number of packets delivered.
        """
    def arrivals(self) -> NDArray[np.void]:
        """Return arrivals at receivers since the last call, in the format of `TcpArrivals.drain`.

        Additional columns, since the start of the connection: bytes_received (in order), data_in (segments
        with data), out_of_order and duplicates (among these); and netns (1 + the index of the receiver's
        host).
        """
    def probe(self, host: str, peer: str, every_us: int, family: str = "ipv4") -> None:
        """Make a host send periodic echo requests to another host, like `ping`.

        Raises:
            CcpError: `sim.no_host`.
        """
    def probes(self) -> list[tuple[str, str, int, int]]:
        """Return echo replies since the last call: host, address of the peer, arrival [us], RTT [us]."""
    def summaries(self) -> list[bytes]:
        """Return the summaries of in-band telemetry sinks since the last call, each as JSON."""
    def outcomes(self) -> bytes:
        """Return the application's results of each flow, as JSON: a list in the order of `connect`."""
    def poll(self, timeout_ms: int) -> Batch:
        """Advance time to the first event plus the agent's latency; return the events.

        Also returns when telemetry publishes, at the horizon, and after `timeout_ms` of virtual time [ms].
        """
    def close(self) -> None:
        """Move all flows to the fallback, and write files."""

@final
class TcpArrivals:
    """Counts arrivals on the TCP sockets of one namespace, in the kernel.

    `drain` returns a row for each socket with arrivals since the last call. Columns: cookie (unique per
    socket), sport, saddr (local end), dport, daddr (peer; addresses have 16 bytes, IPv4 as ::ffff:a.b.c.d).
    Counts since the last call: segs (with and without payload; merged segments count separately), ce_segs
    (segments with ECN's CE), resent_segs (retransmitted segments, as far as sequence numbers and timestamps
    show), bins (segments with a timestamp, by one-way delay above the minimum; see `bin_bounds_us`). Since
    the first segment: elapsed_us (local clock) and ticks (sender's timestamps). tick_us: assumed length of a
    tick (1 or 1000; 0: unknown); stamped (bool: has timestamps); closed (bool: last row).

    Raises:
        CcpError: `trace.not_permitted`, `load.no_btf`, `trace.no_tracepoint` or `trace.refused`.
    """

    def __new__(cls, netns_inode: int, minimum_us: int = ..., max_flows: int = ...) -> TcpArrivals:
        """Start counting.

        Args:
            netns_inode: Inode of the network namespace.
            minimum_us: The minimum delay is taken over the last one to two periods of this length [us].
            max_flows: Maximum flows; segments of further flows are only counted, in `dropped`.
        """
    @staticmethod
    def bin_bounds_us() -> list[int]:
        """Return the lower bound of each bin [us]; the last bin is unbounded."""
    def drain(self) -> NDArray[np.void]:
        """Return the arrivals since the last call, read only."""
    @property
    def dropped(self) -> int:
        """Segments of flows beyond the maximum."""
    def close(self) -> None:
        """Stop counting; repeated calls have no effect."""
    def __enter__(self) -> TcpArrivals: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class TcpTrace:
    """Samples the kernel's TCP sockets, with any congestion control, in the kernel.

    A socket has a row when a segment arrives, if `interval_us` have passed since its last row, and a last
    row (`state` 7) when it closes; without arrivals it has no rows. A row shows the state before the
    segment's ACK is processed. There are no rows between close() and the socket's end.

    Columns: t_us (CLOCK_MONOTONIC), cookie (unique per socket), netns (inode), family (2 or 10), sport,
    dport, saddr, daddr (16 bytes, IPv4 as ::ffff:a.b.c.d), congestion, state (TCP_*), ca_state (0 Open,
    1 Disorder, 2 CWR, 3 Recovery, 4 Loss), cwnd_bytes, ssthresh_bytes (2^64-1: none yet), srtt_us,
    min_rtt_us, rtt_us (of the newest acknowledged segment; all three 0: none yet), mss_bytes,
    pacing_rate_bytes_per_s (2^64-1: none), bytes_in_flight, app_limited (bool), and the totals
    delivered_pkts, delivered_ce, lost_pkts, retrans_pkts, bytes_acked, bytes_received, bytes_sent,
    bytes_retrans.

    Raises:
        CcpError: `trace.not_permitted`, `load.no_btf`, `trace.no_tracepoint` or `trace.refused`.
    """

    def __new__(
        cls, interval_us: int, netns_inodes: list[int] | None = None, ring_bytes: int = ...
    ) -> TcpTrace:
        """Start tracing.

        Args:
            interval_us: Minimum time between two rows of a socket [us]; 0: a row for every segment.
            netns_inodes: Network namespaces; None for all.
            ring_bytes: Size of the buffer between two calls of `drain` [bytes]; a row takes 184 bytes.
        """
    def drain(self) -> NDArray[np.void]:
        """Return the rows since the last call, read only; in order of time for each socket."""
    @property
    def dropped(self) -> int:
        """Rows lost because the buffer was full."""
    def close(self) -> None:
        """Stop tracing; repeated calls have no effect."""
    def __enter__(self) -> TcpTrace: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class IoamCapture:
    """Reads packets with in-band telemetry from a capture file (pcap or pcapng), as JSON.

    Raises:
        CcpError: `ioam.cannot_read` or `ioam.no_capture`.
    """

    def __new__(cls, path: str | os.PathLike[str]) -> IoamCapture: ...
    def read(self, packets: int) -> bytes:
        """Read N packets; return those with telemetry, valid or not, as an array."""
    @property
    def finished(self) -> bool:
        """Whether the end was reached."""
    def summary(self) -> bytes:
        """Return the amount read, and the reason for the end."""

@final
class IntNode:
    """A node of in-band telemetry on a device, attached until `close`: `telemetry.inband.node`.

    Raises:
        CcpError: `int.*`, `ioam.cannot_write` or `load.no_btf`.
    """

    def __new__(
        cls, spec_json: bytes, summaries_fd: int, records_path: str | os.PathLike[str] | None
    ) -> IntNode:
        """Attach `NodeSpec` of `native/ccp-node`; summaries are written to a non-blocking descriptor."""
    def set_queue(self, queue_json: bytes) -> None:
        """Set the state of the device's queue: `Queue` of `native/ccp-node`."""
    def set_radios(self, radios_json: bytes) -> None:
        """Set the state of the radio link to each peer: an array of `Radio` of `native/ccp-node`."""
    def set_waiting(self, waiting_json: bytes) -> None:
        """Set the occupancy of mac80211's queues: an array of `Waiting` of `native/ccp-node`."""
    def came_ns(self) -> int:
        """Return the time of the device's last packet, CLOCK_MONOTONIC [ns]; 0: none yet."""
    def counters(self) -> bytes:
        """Return the counters, even after `close`, as JSON: `telemetry.inband.node.Counters`."""
    def close(self) -> None:
        """Detach the programs, and write the remaining data."""

@final
class RtcpAttached:
    """The kernel's CUBIC and BBR with R-TCP's limits, registered until `close`; sockets keep them afterwards.

    Raises:
        CcpError: `rtcp.*` or `load.no_btf`.
    """

    def __new__(
        cls,
        options: bytes,
        *,
        max_clients: int,
        records: bool = False,
        rules_json: bytes = ...,
        keep_in: str | os.PathLike[str] | None = None,
    ) -> RtcpAttached:
        """Register: `ccplane.agent.features.rtcp.native.attached`."""
    @property
    def names(self) -> list[str]:
        """The registered congestion controls; only those that the kernel has."""
    @property
    def kept(self) -> tuple[str, int]:
        """What happened to the table in `keep_in`, and its number of clients.

        `nothing`: there was none; `table`: it is still used; `verdicts`: a new table has the limited clients;
        `lost`: it could not be read, or the new table is too small.
        """
    @property
    def not_kept(self) -> CcpError | None:
        """Why the table cannot be stored in `keep_in`; None if it can."""
    def summary(self, bounds_bytes_per_s: Sequence[float]) -> dict[str, Any]:
        """Return a summary of the table of clients.

        Args:
            bounds_bytes_per_s: Upper bounds of rate buckets, ascending [bytes/s].

        Returns:
            `max_clients`; `no_room`: connections; `clients`: counts by `enum rtcp_verdict`; `rates`: limited
            clients by upper bound, the last bucket unbounded; `rates_sum`: sum of their rates [bytes/s].
        """
    def drain(self) -> NDArray[np.void]:
        """Return the verdicts since the last call, in order.

        `t_us` (CLOCK_MONOTONIC), `netns` (inode), `remote` (24 bytes, `struct rtcp_remote`), `verdict`
        (`enum rtcp_verdict` of `native/ccp-rtcp`), `bucket_bytes`, `rate_bytes_per_s`, `tokens_bytes`,
        `active_flows`.
        """
    def drain_acks(self) -> NDArray[np.void]:
        """Return the ACKs since the last call, in order.

        `t_us`, `acked_bytes`, `delivered_pkts`, `lost_pkts`, `min_rtt_us`, `srtt_us`, `prior_delivered_pkts`,
        `in_flight_pkts`, `starts` (start of a transfer, not an ACK), `app_limited`, `saddr` and `daddr`
        (16 bytes, IPv4 mapped), `sport`, `dport`.
        """
    @property
    def dropped(self) -> int:
        """Verdicts and ACKs lost because the buffers were full."""
    @property
    def no_room(self) -> int:
        """Connections that are not limited, because the table of clients was full."""
    def close(self) -> None:
        """Unregister the names."""

@final
class SimEnv:
    """Simulated worlds for learning, stepped together; `experiments.learning.worlds` describes the arrays."""

    def __new__(cls, settings_json: bytes, n: int) -> SimEnv:
        """Create n worlds.

        Raises:
            CcpError: `learning.bad_domain`.
        """
    def reset(self, worlds: list[int], seeds: list[int] | None = None) -> NDArray[np.void]:
        """Start new episodes in these worlds; a world's seed determines all its episodes."""
    def step(self, actions: bytes) -> NDArray[np.void]:
        """Apply an action in each world (32-bit floats; NaN: none), and advance by one interval."""

@final
class SocketSwitch:
    """Switches the congestion control of TCP sockets by rules, until `close`.

    `drain` returns a row for each event of a socket: `t_us` (CLOCK_MONOTONIC),
    `saddr` and `daddr` (16 bytes, IPv4 mapped), `sport`, `dport`, `version` of the rules, `rule` (index),
    `error` (negative errno), `what` (`enum switch_what` of `native/ccp-switch`), `before` and `after`
    (congestion control).

    Raises:
        CcpError: `switch.*` or `load.no_btf`.
    """

    def __new__(cls, cgroup: str | os.PathLike[str], netns_cookie: int) -> SocketSwitch:
        """Attach to a cgroup v2 directory; applies to sockets in one network namespace."""
    def set_rules(self, rules_json: bytes) -> int:
        """Replace the rules with an array of `Rule` of `native/ccp-switch`; return their version."""
    def switch_all(self) -> None:
        """Apply the rules to all sockets of this thread's namespace."""
    def restore_all(self) -> None:
        """Stop switching new sockets, and restore the applications' choices in this thread's namespace."""
    def leave_all(self) -> None:
        """Stop switching new sockets, and leave those of this thread's namespace switched permanently."""
    def renew(self, until_ns: int) -> None:
        """Extend the lease: sockets stay switched until then, CLOCK_MONOTONIC [ns], even after a crash."""
    def drain(self) -> NDArray[np.void]:
        """Return the events since the last call, in order."""
    @property
    def dropped(self) -> int:
        """Events lost because the buffer was full."""
    def close(self) -> None:
        """Unload the programs; sockets stay switched until the lease ends."""

def compile(source: str, name: str = "default", origin: str = "<source>", first_line: int = 1) -> Program: ...
def verify(program: Program) -> None: ...
def probe() -> dict[str, dict[str, Any]]: ...
def clock_offset_ns() -> int: ...
def try_load() -> list[tuple[str, CcpError | None]]: ...
def drop_capabilities(keep: list[str] | None = None) -> list[str]: ...
def emulate(spec_json: bytes, tun_fds: list[int], control_fd: int) -> None:
    """Run an emulated network until it is stopped or the peer of `control_fd` disconnects.

    Args:
        spec_json: The network: nodes, directions of links, routes, seed, recording, telemetry; see
            docs/emulator.md. The caller keeps its descriptors open.
        tun_fds: TUN devices of the hosts, opened with IFF_TUN | IFF_NO_PI | IFF_VNET_HDR; the caller keeps
            them open.
        control_fd: A Unix stream socket: requests and answers as lines of JSON.

    Raises:
        CcpError: `emulator.*`; with telemetry also `ioam.cannot_write` and `trace.*`.
    """

def facts() -> dict[str, list[tuple[str, str, str, str, str]]]:
    """Return the descriptions in intf.h: name, type, unit, tag and text, by subject."""

def int_overhead_bytes(source_spec_json: bytes) -> int:
    """Return the number of bytes that a source of in-band telemetry adds to a packet.

    Args:
        source_spec_json: `SourceSpec` of `native/ccp-int`: `namespace_id`, `trace_type`, `max_nodes`,
            `every_pkts`, `wireless_nodes`, `tcp_state`, all optional.

    Raises:
        CcpError: `ioam.cannot_write`.
    """

def rtcp_replay(
    options: bytes, mss_bytes: int, rows: list[tuple[bool, int, int, int, int]], *, in_kernel: bool = False
) -> list[tuple[int | None, int | None, int, int, int, int]]:
    """Replay a trace through R-TCP's detector, with the kernel's code.

    Args:
        options: `Options.to_bytes()`.
        mss_bytes: Segment size [bytes].
        rows: True for the start of a transfer, False for an ACK; time [us], delivered, lost [packets],
            minimum RTT [us].
        in_kernel: Run in the kernel; else the same code in this process.

    Returns:
        After each row: detected at, undetected at [us], bucket [bytes], rate [bytes/s], tokens [bytes], and
        the number of changes of the best candidate.

    Raises:
        CcpError: `rtcp.not_permitted` or `rtcp.refused`.
    """

@final
class RtcpTransfer:
    """A transfer and its result; None for events that have not happened."""

    started_at_us: int
    triggered_at_us: int | None
    detected_at_us: int | None
    undetected_at_us: int | None
    before_bytes_per_s: int
    bucket_bytes: int
    rate_bytes_per_s: int

@final
class RtcpDetector:
    """R-TCP's detector for one flow; `now`: time [us], delivered, lost [packets], minimum RTT [us]."""

    detected_at_us: int | None
    undetected_at_us: int | None
    limited: bool
    bucket_bytes: int
    rate_bytes_per_s: int
    changes: int
    transfers: list[RtcpTransfer]
    transfer: RtcpTransfer | None

    def __new__(cls, options: bytes, mss_bytes: int) -> RtcpDetector: ...
    def start(self, now: tuple[int, int, int, int]) -> None: ...
    def ack(self, now: tuple[int, int, int, int]) -> None: ...
    def tokens_bytes(self, now_us: int) -> int: ...

@final
class RtcpSimulated:
    """`rtcp_cubic` and `rtcp_bbr` for the flows of a simulated datapath: CUBIC and BBR with R-TCP's limits.

    `records`: record each ACK for `drain_acks`; rows as in `RtcpAttached`.

    Raises:
        CcpError: `rtcp.name_taken`, if the names are already registered.
    """

    def __new__(cls, datapath: SimDatapath, options: bytes, *, records: bool = False) -> RtcpSimulated: ...
    def drain(self) -> NDArray[np.void]: ...
    def drain_acks(self) -> NDArray[np.void]: ...

@final
class RtcpState:
    """State of a client's detector."""

    limited: bool
    found: bool
    is_undecided: bool
    bucket_bytes: int
    rate_bytes_per_s: int
    started_at_us: int
    triggered: bool

    def tokens_bytes(self, now_us: int) -> int: ...

@final
class RtcpClients:
    """Detectors of clients, shared by all connections to a client; they do not limit anything."""

    def __new__(cls, options: bytes, mss_bytes: int) -> RtcpClients: ...
    def __len__(self) -> int: ...
    def open(self, address: bytes, port: int, now: tuple[int, int, int, int]) -> RtcpConnection:
        """Start a connection.

        Args:
            address: Address of the peer: 16 bytes, IPv4 mapped.
            port: Port of the peer.
            now: Initial counters, as for `RtcpDetector`.
        """

@final
class RtcpConnection:
    """A connection to a client."""

    detector: RtcpState | None
    remote: bytes

    def start(self, now: tuple[int, int, int, int]) -> None: ...
    def ack(self, now: tuple[int, int, int, int], *, idle: bool = False) -> None: ...
    def close(self, now: tuple[int, int, int, int]) -> None: ...

def rtcp_remote_of(options: bytes, address: bytes, port: int) -> bytes:
    """Return the client of an address and port: `struct rtcp_remote` of native/ccp-rtcp.

    Args:
        options: `Options.to_bytes()`.
        address: 16 bytes, IPv4 mapped.
        port: Port in host byte order.
    """

def rtcp_agent_summary(
    pin_dir: str | os.PathLike[str], bounds_bytes_per_s: Sequence[float]
) -> dict[str, Any] | None: ...
def rtcp_forget(kept_in: str | os.PathLike[str]) -> bool: ...
def rtcp_tables(
    now_us: int, pin_dir: str, kept_in: str | os.PathLike[str]
) -> list[tuple[str, int, int, list[dict[str, Any]] | None]]:
    """Return the tables, see `ccplane.agent.features.rtcp.native.client_tables`.

    Fields of a client: `netns` (inode), `netns_cookie`, `remote` (24 bytes, `struct rtcp_remote` of
    `native/ccp-rtcp`), `verdict` (`enum rtcp_verdict`), `bucket_bytes`, `rate_bytes_per_s`, `tokens_bytes`,
    `open_flows`, `active_flows`, `delivered_bytes`, `lost_bytes`, `last_us` (latest ACK), `triggered` (heavy
    loss started an estimation in its latest transfer), `found` (a limit was found at some time), `end` (how
    its end was detected: `bytes`, `rate` or None).
    """

def rtcp_try_load(options: bytes) -> CcpError | None:
    """Try to load the programs for ordinary sockets, and unload them; return the error, if any."""

def rtcp_work(options: bytes, state: str, acks: int) -> None:
    """Run synthetic ACKs through R-TCP's detector, for a measurement of its running time.

    Args:
        options: `Options.to_bytes()`.
        state: State of the detector: `waiting`, `triggered` or `limited`.
        acks: Number of ACKs.
    """

def ioam_decode(packet: bytes) -> bytes:
    """Decode the options of an IPv6 packet to JSON; `telemetry.ioam` has the classes.

    Raises:
        CcpError: `ioam.not_ipv6`.
    """

def ioam_decode_header(header: bytes, hop_by_hop: bool) -> bytes:
    """Decode a Hop-by-Hop or Destination Options header to JSON.

    Raises:
        CcpError: `ioam.truncated` or `ioam.bad_length`.
    """

def ioam_insert(packet: bytes, options_json: bytes) -> bytes:
    """Return an IPv6 packet with options in its headers.

    Raises:
        CcpError: `ioam.cannot_write`, `ioam.cannot_insert`, or an error of the packet.
    """

def ioam_build(options_json: bytes, next_header: int) -> tuple[bytes, bytes]:
    """Return a Hop-by-Hop and a Destination Options header with options; empty if it has no options.

    Raises:
        CcpError: `ioam.cannot_write`.
    """

def ioam_remove(packet: bytes) -> bytes:
    """Return an IPv6 packet without IOAM and without the TCP state.

    Raises:
        CcpError: If the packet is not valid.
    """

def ioam_fill(packet: bytes, namespace_id: int, node_json: bytes) -> tuple[bytes, int, int]:
    """Add a node's data to the traces of a packet; return it, and how many traces had room and had none.

    Raises:
        CcpError: `ioam.cannot_write`, or an error of the packet.
    """

# Interop: see `ccplane.datapath.wire`.

def to_bytecode(program: Program) -> tuple[int, int, bytes]:
    """Encode a program for portus' datapaths: number of events, number of instructions, bytes.

    Raises:
        LangError: `lang.limit`, with everything that such a datapath does not support.
    """

def portable(program: Program, libccp: bool) -> Portable:
    """Encode a program for datapaths that use CCP's wire format.

    Args:
        program: The program.
        libccp: For datapaths built on libccp 1.2, with its limits; else for `from_bytecode`.

    Raises:
        LangError: `lang.limit`, with everything that such a datapath does not support.
    """

def from_bytecode(
    n_events: int, n_instrs: int, raw: bytes, name: str, origin: str, with_rtt: bool = False
) -> Program:
    """Decode a program of an agent built with portus; its registers are named r0, c0, l0.

    Raises:
        LangError: `lang.bytecode` or `lang.limit`; lines are instruction numbers.
    """

def wire_messages(datagram: bytes) -> list[Message]:
    """Return the messages of a datagram.

    Raises:
        CcpError: `wire.message`.
    """

def wire_values(fields: Sequence[tuple[int, int, int]]) -> dict[str, int]:
    """Return new values by the register names of `from_bytecode`: c0 and so on.

    Window and rate are `cwnd_bytes` and `rate_bytes_per_s`; 0 leaves them unchanged, as in libccp.

    Raises:
        CcpError: `wire.read_only`.
    """

@disjoint_base
class Message:
    """A message of portus' wire protocol; addresses and ports are numbers in network byte order."""

    def to_bytes(self) -> bytes: ...

    @final
    class Create(Message):
        """A flow was created; an empty `algorithm` requests the agent's default."""

        __match_args__: ClassVar[tuple[str, ...]]
        def __new__(
            cls,
            flow: int,
            init_cwnd_bytes: int,
            mss_bytes: int,
            src_ip: int,
            src_port: int,
            dst_ip: int,
            dst_port: int,
            algorithm: str,
        ) -> Message.Create: ...
        @property
        def flow(self) -> int: ...
        @property
        def init_cwnd_bytes(self) -> int: ...
        @property
        def mss_bytes(self) -> int: ...
        @property
        def src_ip(self) -> int: ...
        @property
        def src_port(self) -> int: ...
        @property
        def dst_ip(self) -> int: ...
        @property
        def dst_port(self) -> int: ...
        @property
        def algorithm(self) -> str: ...

    @final
    class Measure(Message):
        """A report of a program, or the end of a flow if there are no fields."""

        __match_args__: ClassVar[tuple[str, ...]]
        def __new__(cls, flow: int, program: int, fields: Sequence[int]) -> Message.Measure: ...
        @property
        def flow(self) -> int: ...
        @property
        def program(self) -> int: ...
        @property
        def fields(self) -> list[int]: ...

    @final
    class Install(Message):
        """A program for all flows."""

        __match_args__: ClassVar[tuple[str, ...]]
        def __new__(cls, program: int, n_events: int, n_instrs: int, code: bytes) -> Message.Install: ...
        @property
        def program(self) -> int: ...
        @property
        def n_events(self) -> int: ...
        @property
        def n_instrs(self) -> int: ...
        @property
        def code(self) -> bytes: ...

    @final
    class Update(Message):
        """New values of registers of a flow."""

        __match_args__: ClassVar[tuple[str, ...]]
        def __new__(cls, flow: int, fields: Sequence[tuple[int, int, int]]) -> Message.Update: ...
        @property
        def flow(self) -> int: ...
        @property
        def fields(self) -> list[tuple[int, int, int]]: ...

    @final
    class ChangeProgram(Message):
        """Another program for a flow, with other initial values of registers."""

        __match_args__: ClassVar[tuple[str, ...]]
        def __new__(
            cls, flow: int, program: int, fields: Sequence[tuple[int, int, int]]
        ) -> Message.ChangeProgram: ...
        @property
        def flow(self) -> int: ...
        @property
        def program(self) -> int: ...
        @property
        def fields(self) -> list[tuple[int, int, int]]: ...

    @final
    class Ready(Message):
        """A datapath has joined."""

        __match_args__: ClassVar[tuple[str, ...]]
        def __new__(cls, datapath: int) -> Message.Ready: ...
        @property
        def datapath(self) -> int: ...

@final
class Portable:
    """A program encoded for datapaths that use CCP's wire format."""

    @property
    def n_events(self) -> int: ...
    @property
    def n_instrs(self) -> int: ...
    @property
    def raw(self) -> bytes: ...
    @property
    def control_kinds(self) -> list[int]:
        """Kind on the wire of each control register of the original program."""
    @property
    def begin(self) -> list[tuple[int, int]]:
        """Initial values to be sent with the program: index of a control register, value."""
    @property
    def carried(self) -> list[tuple[str, int, int]]:
        """Control registers initialised from the flow's state: name of the state, register, factor."""
    @property
    def head(self) -> list[tuple[str, int]]:
        """Report registers for the agent: name, index in a report."""
    @property
    def n_reports(self) -> int:
        """Number of Report registers: the program's, then the agent's."""

@final
class WireLink:
    """A link to an agent; see `ccplane.datapath.wire.link`."""

    def __new__(
        cls,
        agent: os.PathLike[str],
        received: Callable[[str, Any], bool],
        own: os.PathLike[str] | None = None,
    ) -> WireLink: ...
    def announce(
        self,
        ends: tuple[tuple[str, int], tuple[str, int]],
        algorithm: str,
        window_bytes: int,
        mss_bytes: int,
    ) -> int:
        """Announce a flow to the current agent and to every later one; return the flow's number."""
    def measured(self, flow: int, program: int, fields: Sequence[int]) -> None:
        """Send a report; it is queued while the agent's buffer is full."""
    def remove(self, flow: int) -> None:
        """Announce that a flow closed."""
    @property
    def connected(self) -> bool: ...
    def close(self) -> None: ...

@final
class WireFlow:
    """A QUIC connection that an agent can control. Times are in seconds with an arbitrary origin."""

    def __new__(
        cls, link: WireLink, now_s: float, algorithm: str, window_bytes: int, mss_bytes: int
    ) -> WireFlow: ...
    @property
    def number(self) -> int: ...
    @property
    def is_steered(self) -> bool: ...
    def receive(self, now_s: float, window_bytes: int) -> bool:
        """Apply the agent's messages; return whether its program controls the connection."""
    def sent(self, now_s: float, bytes: int) -> None: ...
    def acked(self, sent_s: float, bytes: int) -> None:
        """Record an acknowledged packet."""
    def ack_ended(self, now_s: float, in_flight_bytes: int, is_app_limited: bool) -> None:
        """Run the program for the acknowledged packets."""
    def lost(
        self, now_s: float, *, lost_bytes: int = 0, lost_pkts: int = 0, was_timeout: bool = False
    ) -> None:
        """Run the program for lost packets."""
    def settle(self, window_bytes: int, srtt_s: float) -> int | None:
        """Store the window for a later agent; return the program's window if it controls the connection."""
