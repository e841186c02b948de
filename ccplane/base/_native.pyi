"""Types of the compiled part (native/ccp-native): the CCP language, kernel and simulated datapath.

Errors are those of `ccplane.base.errors`. Windows are bytes, rates bytes/s, times microseconds of
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
    "Told",
    "WireFlow",
    "WireLink",
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
    "rehearse",
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
"""Names that only a build with the kernel part has (Linux, feature `kernel`); elsewhere asking for one raises
LoadError `load.no_kernel_part`."""

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
    """The reference interpreter: a fold program without a kernel, one ACK at a time."""

    def __new__(cls, program: Program, now_us: int = 0) -> Interpreter: ...
    def ack(self, now_us: int, primitives: dict[str, int]) -> dict[str, int] | None:
        """Fold one ACK; return the Report registers if the program reports.

        Raises:
            ArithmeticError: If the fold stops with one.
            KeyError: If a name is no primitive.
        """
    def set(self, name: str, value: int) -> None:
        """Set a control register."""
    @property
    def controls(self) -> dict[str, int]: ...
    cwnd_bytes: int
    rate_bytes_per_s: int

@final
class Report:
    """One report; Report registers of the program are attributes, too."""

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
    """A flow came."""

    EVENT_KIND: ClassVar[Literal[1]]

    @property
    def info(self) -> FlowInfo: ...

@final
class Closed:
    """A flow went."""

    EVENT_KIND: ClassVar[Literal[2]]

    @property
    def flow_id(self) -> int: ...
    @property
    def stats(self) -> FlowStats: ...

@final
class Told:
    """An extension of the datapath tells something of a flow."""

    EVENT_KIND: ClassVar[Literal[3]]

    @property
    def flow_id(self) -> int: ...
    @property
    def now_us(self) -> int: ...
    @property
    def extension(self) -> str: ...
    @property
    def octets(self) -> bytes: ...

@final
class Batch:
    """What one poll brought; times are of CLOCK_MONOTONIC, and 0 in a simulation."""

    @property
    def woken_us(self) -> int: ...
    @property
    def taken_us(self) -> int: ...
    def made_us(self) -> dict[int, int]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Created | Closed | Told | Report]: ...
    def arrays(self) -> list[tuple[int, NDArray[np.void]]]: ...
    def events(self) -> list[Created | Closed | Told]: ...

@disjoint_base
class Datapath:
    """What every datapath here has: a `ccplane.datapath.protocol.Datapath`, which says more."""

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
        letters: dict[str, bytes] | None = None,
    ) -> bool: ...
    def update_many(
        self,
        flow_ids: NDArray[np.uint64],
        cwnd_bytes: NDArray[np.uint64],
        rate_bytes_per_s: NDArray[np.uint64],
        registers: dict[str, NDArray[np.uint64]] | None = None,
    ) -> int: ...
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
        max_cwnd_bytes: int = ...,
        take_over: bool = ...,
        max_flows_per_user: int | None = ...,
        max_flows_per_cgroup: int | None = ...,
        reap_after_ms: int = ...,
    ) -> EbpfDatapath: ...
    def resumed(self, extension: str) -> tuple[str, int]:
        """Return what became of what the agent before had in an extension, and of how many things.

        `nothing`, `table`: it is used further; `verdicts`: the new one has what mattered; `lost`.
        """

    def silences(self) -> tuple[list[tuple[int, int]], int]: ...
    def has_successor(self) -> bool: ...
    def release(self) -> None: ...
    @staticmethod
    def unload(pin_dir: str) -> tuple[list[str], list[str], list[str]]: ...
    @staticmethod
    def observe(pin_dir: str) -> EbpfView: ...

@final
class EbpfView:
    """The kernel datapath of another process, read only; no heartbeat."""

    def flows(self) -> list[FlowInfo]: ...
    def stats(self, flow_id: int) -> FlowStats | None: ...
    def all_stats(self) -> list[FlowStats]: ...
    def counters(self) -> dict[str, int]: ...
    def memory_bytes(self) -> int: ...

@final
class SimDatapath(Datapath):
    """A network, its hosts and their connections in virtual time.

    Flows come by `connect`, and are the agent's if their congestion control is a name that it has registered
    (`ccp` is one from the start). Time passes in `poll` and `run_until` only, and never passes the horizon.
    There is always room for a record, and the agent is always there: no report is missed, and no heartbeat is
    needed.

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
        """Make a world: `ccplane.datapath.sim.open_world`."""
    @staticmethod
    def bin_bounds_us() -> list[int]: ...
    def connect(self, plan_json: bytes) -> int:
        """Add a flow; return its index.

        Args:
            plan_json: `Plan` in `native/ccp-sim/src/plan.rs`; its times are those of the virtual clock [us].

        Raises:
            CcpError: `sim.bad_plan`, `sim.no_host` or `sim.no_congestion_control`.
        """
    @property
    def now_us(self) -> int:
        """The virtual time [us]."""
    horizon_us: int
    """Time does not pass it [us]."""
    def run_until(self, at_us: int) -> None:
        """Let time pass until then, or the horizon, whatever records and summaries come meanwhile."""
    @property
    def finished(self) -> bool:
        """Whether all flows have come to their ends."""
    @property
    def packet_events(self) -> int:
        """How often a packet came to a link, left its transmitter, or reached its end, since the start."""
    def set_link(self, name: str, direction_json: bytes) -> None:
        """Change a link direction under the packets in it.

        Raises:
            CcpError: `emulator.no_link` or `emulator.bad_spec`.
        """
    def set_routes(self, routes_json: bytes) -> None:
        """Change routes; packets that are in a link stay there.

        Raises:
            CcpError: `emulator.bad_spec`.
        """
    def links(self) -> bytes:
        """Return what is in each link direction and became of its packets, as the emulator's `stats`."""
    def rows(self) -> NDArray[np.void]:
        """Return samples of senders' sockets since the last call, as `TcpTrace.drain` does.

        `netns` is 1 + the index of the host; a socket that has heard nothing since its last row gives none.
        """
    def arrivals(self) -> NDArray[np.void]:
        """Return what arrived at receivers since the last call, as `TcpArrivals.drain` does.

        Columns besides, since the start of the connection: bytes_received (in order), data_in (segments with
        data), out_of_order and duplicates (of these); and netns (1 + the index of the receiver's host).
        """
    def probe(self, host: str, peer: str, every_us: int, family: str = "ipv4") -> None:
        """Have a host ask another one for an echo from now on, every so often, as `ping` does.

        Raises:
            CcpError: `sim.no_host`.
        """
    def probes(self) -> list[tuple[str, str, int, int]]:
        """Return answers since the last call: host, address of the peer, arrival [us], RTT [us]."""
    def summaries(self) -> list[bytes]:
        """Return what sinks of in-band telemetry have said since the last call, each as JSON."""
    def outcomes(self) -> bytes:
        """Return what applications of each flow saw, as JSON: a list in the order of `connect`."""
    def poll(self, timeout_ms: int) -> Batch:
        """Let time pass until the first record, and the agent's latency more; return what came.

        Returns also when telemetry has something to say, at the horizon, and after `timeout_ms` of virtual
        time [ms].
        """
    def close(self) -> None:
        """Hand all flows to the fallback law, and write files."""

@final
class TcpArrivals:
    """What arrives on one namespace's TCP sockets, counted in the kernel.

    `drain` gives a row for each socket that something came on since the last call. Columns: cookie (one
    socket, never used twice), sport, saddr (this end), dport, daddr (the other one; addresses have 16 bytes,
    IPv4 as ::ffff:a.b.c.d); what grew since the last call: segs (with and without payload, merged ones each),
    ce_segs (of these, with ECN's CE), resent_segs (of these, sent again, as far as sequence numbers and
    timestamps tell), bins (segments with a timestamp, by one-way delay above the least; see
    `bin_bounds_us`); how far our clock (elapsed_us) and the sender's timestamps (ticks) have gone since the
    first segment; tick_us, what a tick was taken for (1 or 1000; 0: not known yet); stamped (bool: it has
    timestamps); closed (bool: nothing will follow).

    Raises:
        CcpError: `trace.not_permitted`, `load.no_btf`, `trace.no_tracepoint` or `trace.refused`.
    """

    def __new__(cls, netns_inode: int, minimum_us: int = ..., max_flows: int = ...) -> TcpArrivals:
        """Start counting.

        Args:
            netns_inode: Of the network namespace whose sockets to look at.
            minimum_us: The least delay is that of the last one to two of these [us].
            max_flows: For how many there is room; segments of others are only counted, in `dropped`.
        """
    @staticmethod
    def bin_bounds_us() -> list[int]:
        """Return the least delay of each bin [us]; a bin ends where the next begins, the last nowhere."""
    def drain(self) -> NDArray[np.void]:
        """Return what came since the last call, read only."""
    @property
    def dropped(self) -> int:
        """How many segments belonged to flows for which there was no room."""
    def close(self) -> None:
        """Stop counting; may be called again."""
    def __enter__(self) -> TcpArrivals: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class TcpTrace:
    """Samples of the kernel's TCP sockets, whatever their congestion control, taken in the kernel.

    A socket gives a row when a segment comes in, if `interval_us` have passed since its last one, and a last
    row (`state` 7) when it closes; one that sends and hears nothing gives none. A row shows the state before
    the segment's ACK is processed. Between close() and the socket's end there are no rows.

    Columns: t_us (CLOCK_MONOTONIC), cookie (one socket, never used twice), netns (inode), family (2 or 10),
    sport, dport, saddr, daddr (16 bytes, IPv4 as ::ffff:a.b.c.d), congestion, state (TCP_*), ca_state
    (0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss), cwnd_bytes, ssthresh_bytes (2^64-1: none yet), srtt_us,
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
            interval_us: Least time between two rows of a socket [us]; 0: a row for every segment.
            netns_inodes: Network namespaces to look at; all, if None.
            ring_bytes: How much is kept between two calls of `drain` [bytes]; a row has 184.
        """
    def drain(self) -> NDArray[np.void]:
        """Return the rows since the last call, read only; in order of time for each socket."""
    @property
    def dropped(self) -> int:
        """How many rows were lost because nobody drained in time."""
    def close(self) -> None:
        """Stop tracing; may be called again."""
    def __enter__(self) -> TcpTrace: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class IoamCapture:
    """A file of captured packets, pcap or pcapng: those with in-band telemetry, as JSON.

    Raises:
        CcpError: `ioam.cannot_read` or `ioam.no_capture`.
    """

    def __new__(cls, path: str | os.PathLike[str]) -> IoamCapture: ...
    def read(self, packets: int) -> bytes:
        """Read so many packets; return those with telemetry, or with something wrong in it, as an array."""
    @property
    def finished(self) -> bool:
        """Whether there is nothing more."""
    def summary(self) -> bytes:
        """Return how much was read, and what ended it."""

@final
class IntNode:
    """A node of in-band telemetry on a device, attached while it is open: `telemetry.inband.node`.

    Raises:
        CcpError: `int.*`, `ioam.cannot_write` or `load.no_btf`.
    """

    def __new__(
        cls, spec_json: bytes, summaries_fd: int, records_path: str | os.PathLike[str] | None
    ) -> IntNode:
        """Attach `NodeSpec` of `native/ccp-node`; summaries go to a descriptor that does not block."""
    def set_queue(self, queue_json: bytes) -> None:
        """Say what the queue behind the device is like: `Queue` of `native/ccp-node`."""
    def set_radios(self, radios_json: bytes) -> None:
        """Say what is known of the air to each other end: an array of `Radio` of `native/ccp-node`."""
    def set_waiting(self, waiting_json: bytes) -> None:
        """Say what waits in mac80211's queues: an array of `Waiting` of `native/ccp-node`."""
    def came_ns(self) -> int:
        """Return when a packet came to the device last, by the monotonic clock [ns]; 0: none has."""
    def counters(self) -> bytes:
        """Return what happened so far, also after the end, as JSON: `telemetry.inband.node.Counters`."""
    def close(self) -> None:
        """Take the programs off the device, and write what came until then."""

@final
class RtcpAttached:
    """Offers the kernel's CUBIC and BBR, bounded by R-TCP, to sockets while it is open.

    Sockets that have one of them keep it to their end.

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
        """The congestion controls: those which the kernel has itself."""
    @property
    def kept(self) -> tuple[str, int]:
        """What became of the table in `keep_in`, and of how many clients.

        `nothing`: there was none; `table`: it goes on; `verdicts`: those of limited clients are in a new
        table; `lost`: they could not be read, or there is no room for them.
        """
    @property
    def not_kept(self) -> CcpError | None:
        """Why the table will not outlive it, though it was to."""
    def summary(self, bounds_bytes_per_s: Sequence[float]) -> dict[str, Any]:
        """Return the table of clients in numbers.

        Args:
            bounds_bytes_per_s: Upper bounds of rates, in rising order [bytes/s].

        Returns:
            `max_clients`; `no_room`: connections; `clients`: by `enum rtcp_verdict`; `rates`: limited clients
            by upper bound, the last without one; `rates_sum`: sum of their rates [bytes/s].
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
        `in_flight_pkts`, `starts` (a transfer begins, and this is no ACK), `app_limited`, `saddr` and
        `daddr` (16 bytes, IPv4 mapped), `sport`, `dport`.
        """
    @property
    def dropped(self) -> int:
        """How many rows of both were lost, because nobody drained them in time."""
    @property
    def no_room(self) -> int:
        """How many connections are not bounded, because there was no room for their client."""
    def close(self) -> None:
        """Take the names away."""

@final
class SimEnv:
    """Simulated worlds for learning, stepped together; `experiments.learning.worlds` explains its arrays."""

    def __new__(cls, settings_json: bytes, n: int) -> SimEnv:
        """Make n worlds.

        Raises:
            CcpError: `learning.bad_domain`.
        """
    def reset(self, worlds: list[int], seeds: list[int] | None = None) -> NDArray[np.void]:
        """Begin new episodes in these worlds; all of a world's episodes follow from its seed."""
    def step(self, actions: bytes) -> NDArray[np.void]:
        """Act in each world (32-bit floats; NaN: let it be) and let an interval pass."""

@final
class SocketSwitch:
    """Gives TCP sockets other congestion controls, by rules, while it is open.

    `drain` returns a row of each thing that happened to a socket: `t_us` (CLOCK_MONOTONIC),
    `saddr` and `daddr` (16 bytes, IPv4 mapped), `sport`, `dport`, `version` of the rules, `rule` (index),
    `error` (negative errno), `what` (`enum switch_what` of `native/ccp-switch`), `before` and `after`
    (congestion control).

    Raises:
        CcpError: `switch.*` or `load.no_btf`.
    """

    def __new__(cls, cgroup: str | os.PathLike[str], netns_cookie: int) -> SocketSwitch:
        """Attach; new sockets are those of a cgroup v2 directory in one network namespace."""
    def set_rules(self, rules_json: bytes) -> int:
        """Replace the rules by an array of `Rule` of `native/ccp-switch`; returns their version."""
    def switch_all(self) -> None:
        """Do what the rules say to the sockets of this thread's namespace."""
    def restore_all(self) -> None:
        """Look at no new sockets, and give those of this thread's namespace what they had first."""
    def leave_all(self) -> None:
        """Look at no new sockets, and leave those of this thread's namespace as they are, for good."""
    def renew(self, until_ns: int) -> None:
        """Have our sockets stay as they are until then [ns of CLOCK_MONOTONIC], even if we are killed."""
    def drain(self) -> NDArray[np.void]:
        """Return what happened since the last call, in order."""
    @property
    def dropped(self) -> int:
        """How many rows were lost, because nobody drained them in time."""
    def close(self) -> None:
        """Take the programs out of the kernel; sockets stay as they are until the lease ends."""

def compile(source: str, name: str = "default", origin: str = "<source>", first_line: int = 1) -> Program: ...
def verify(program: Program) -> None: ...
def probe() -> dict[str, dict[str, Any]]: ...
def rehearse(
    pin_dir: str, cc_names: Sequence[str], extensions: Sequence[tuple[str, bytes | None]]
) -> None: ...
def try_load() -> list[tuple[str, CcpError | None]]: ...
def drop_capabilities(keep: list[str] | None = None) -> list[str]: ...
def emulate(spec_json: bytes, tun_fds: list[int], control_fd: int) -> None:
    """Run an emulated network until it is stopped or the other side of `control_fd` is gone.

    Args:
        spec_json: The network: nodes, directions of links, routes, seed, what to record, telemetry; see
            docs/emulator.md. A descriptor that it names stays open meanwhile, too.
        tun_fds: TUN devices of the hosts, opened with IFF_TUN | IFF_NO_PI | IFF_VNET_HDR; they stay open
            meanwhile.
        control_fd: A Unix stream socket: requests and answers as lines of JSON.

    Raises:
        CcpError: `emulator.*`; with telemetry also `ioam.cannot_write` and those of tracing, `trace.*`.
    """

def facts() -> dict[str, list[tuple[str, str, str, str, str]]]:
    """Return what intf.h describes: name, type, unit, tag and text, by subject."""

def int_overhead_bytes(source_spec_json: bytes) -> int:
    """Return by how many bytes a source of in-band telemetry makes packets longer.

    Args:
        source_spec_json: `SourceSpec` of `native/ccp-int`: `namespace_id`, `trace_type`, `max_nodes`,
            `every_pkts`, `wireless_nodes`, `tcp_state`; what is left out has its default.

    Raises:
        CcpError: `ioam.cannot_write`.
    """

def rtcp_replay(
    options: bytes, mss_bytes: int, rows: list[tuple[bool, int, int, int, int]], *, in_kernel: bool = False
) -> list[tuple[int | None, int | None, int, int, int, int]]:
    """Take a trace through R-TCP's detector as the kernel has it.

    Args:
        options: `Options.to_bytes()`.
        mss_bytes: Segment size [bytes].
        rows: Whether a transfer starts or it is an ACK, time [us], delivered, lost [packets], least RTT [us].
        in_kernel: By the kernel itself, or by the same code in this process.

    Returns:
        After each row: detected at, undetected at [us], bucket [bytes], rate [bytes/s], tokens [bytes], and
        how often the best candidate has become another.

    Raises:
        CcpError: `rtcp.not_permitted` or `rtcp.refused`.
    """

@final
class RtcpTransfer:
    """A transfer, and what became of it; None stands for what has not happened."""

    started_at_us: int
    triggered_at_us: int | None
    detected_at_us: int | None
    undetected_at_us: int | None
    before_bytes_per_s: int
    bucket_bytes: int
    rate_bytes_per_s: int

@final
class RtcpDetector:
    """R-TCP's detector of one flow; `now`: time [us], delivered, lost [packets], minimum RTT [us]."""

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
    """`rtcp_cubic` and `rtcp_bbr` for the flows of a simulated datapath: CUBIC and BBR under R-TCP.

    `records`: each ACK makes a row for `drain_acks`; the rows are those of `RtcpAttached`.

    Raises:
        CcpError: `rtcp.name_taken`: they are on offer already.
    """

    def __new__(cls, datapath: SimDatapath, options: bytes, *, records: bool = False) -> RtcpSimulated: ...
    def drain(self) -> NDArray[np.void]: ...
    def drain_acks(self) -> NDArray[np.void]: ...

@final
class RtcpState:
    """What the detector of a client knows."""

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
    """Detectors of clients, which all connections to a client share; nothing is limited."""

    def __new__(cls, options: bytes, mss_bytes: int) -> RtcpClients: ...
    def __len__(self) -> int: ...
    def open(self, address: bytes, port: int, now: tuple[int, int, int, int]) -> RtcpConnection:
        """Begin a connection.

        Args:
            address: Of the other end: 16 bytes, IPv4 mapped.
            port: Of the other end.
            now: As for `RtcpDetector`: the counters that the connection begins with.
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
    """Return the client that a port of an address belongs to: `struct rtcp_remote` of native/ccp-rtcp.

    Args:
        options: `Options.to_bytes()`.
        address: 16 bytes, IPv4 mapped.
        port: In host order.
    """

def rtcp_agent_summary(
    pin_dir: str | os.PathLike[str], bounds_bytes_per_s: Sequence[float]
) -> dict[str, Any] | None: ...
def rtcp_forget(kept_in: str | os.PathLike[str]) -> bool: ...
def rtcp_tables(
    now_us: int, pin_dir: str, kept_in: str | os.PathLike[str]
) -> list[tuple[str, int, int, list[dict[str, Any]] | None]]:
    """Return what `ccplane.agent.features.rtcp.native.client_tables` does.

    Of each client: `netns` (inode),
    `netns_cookie`, `remote` (24 bytes, `struct rtcp_remote` of `native/ccp-rtcp`), `verdict` (`enum
    rtcp_verdict`), `bucket_bytes`, `rate_bytes_per_s`, `tokens_bytes`, `open_flows`, `active_flows`,
    `delivered_bytes`, `lost_bytes`,
    `last_us` (of the latest ACK), `triggered` (heavy loss set an estimation off in its latest transfer),
    `found` (a limit, at some time), `end` (how that was found to be gone: `bytes`, `rate` or None).
    """

def rtcp_try_load(options: bytes) -> CcpError | None:
    """Load the programs for ordinary sockets and take them away again; return what went wrong."""

def rtcp_work(options: bytes, state: str, acks: int) -> None:
    """Take made-up ACKs through R-TCP's detector, to measure how long it takes.

    Args:
        options: `Options.to_bytes()`.
        state: What it is busy with: `waiting`, `triggered` or `limited`.
        acks: How many.
    """

def ioam_decode(packet: bytes) -> bytes:
    """Return what an IPv6 packet carries, as JSON; `telemetry.ioam` has the classes.

    Raises:
        CcpError: `ioam.not_ipv6`.
    """

def ioam_decode_header(header: bytes, hop_by_hop: bool) -> bytes:
    """Return what a Hop-by-Hop or a Destination Options header carries, as JSON.

    Raises:
        CcpError: `ioam.truncated` or `ioam.bad_length`.
    """

def ioam_insert(packet: bytes, options_json: bytes) -> bytes:
    """Return an IPv6 packet with options in its headers.

    Raises:
        CcpError: `ioam.cannot_write`, `ioam.cannot_insert`, or what is wrong with the packet.
    """

def ioam_build(options_json: bytes, next_header: int) -> tuple[bytes, bytes]:
    """Return a Hop-by-Hop and a Destination Options header with options; empty where there is nothing for it.

    Raises:
        CcpError: `ioam.cannot_write`.
    """

def ioam_remove(packet: bytes) -> bytes:
    """Return an IPv6 packet without IOAM and without the TCP state.

    Raises:
        CcpError: What is wrong with the packet.
    """

def ioam_fill(packet: bytes, namespace_id: int, node_json: bytes) -> tuple[bytes, int, int]:
    """Return a packet with a node's data in its traces; how many had room, and how many had none.

    Raises:
        CcpError: `ioam.cannot_write`, or what is wrong with the packet.
    """

# Interop: see `ccplane.datapath.wire`.

def to_bytecode(program: Program) -> tuple[int, int, bytes]:
    """Return how many events and instructions portus' datapaths get, and their bytes.

    Raises:
        LangError: `lang.limit`, with all that such a datapath does not have.
    """

def portable(program: Program, libccp: bool) -> Portable:
    """Return what datapaths get that speak CCP's wire format.

    Args:
        program: The program.
        libccp: For datapaths that are built on libccp 1.2, with its limits; else what `from_bytecode` takes.

    Raises:
        LangError: `lang.limit`, with all that such a datapath does not have.
    """

def from_bytecode(
    n_events: int, n_instrs: int, octets: bytes, name: str, origin: str, with_rtt: bool = False
) -> Program:
    """Return the program that an agent made with portus has sent; its registers are called r0, c0, l0.

    Raises:
        LangError: `lang.bytecode` or `lang.limit`; lines are numbers of instructions.
    """

def wire_messages(datagram: bytes) -> list[Message]:
    """Return the messages of a datagram.

    Raises:
        CcpError: `wire.message`.
    """

def wire_values(fields: Sequence[tuple[int, int, int]]) -> dict[str, int]:
    """Return new values by the names that registers of `from_bytecode` have: c0 and so on.

    Window and rate are `cwnd_bytes` and `rate_bytes_per_s`; 0 leaves them as they are, as in libccp.

    Raises:
        CcpError: `wire.read_only`.
    """

@disjoint_base
class Message:
    """A message of portus' wire protocol; addresses and ports are numbers in network byte order."""

    def octets(self) -> bytes: ...

    @final
    class Create(Message):
        """A flow began; an empty `algorithm` asks for the agent's default."""

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
        """Another program for a flow, and the registers that begin otherwise than it says."""

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
        """A datapath is there."""

        __match_args__: ClassVar[tuple[str, ...]]
        def __new__(cls, datapath: int) -> Message.Ready: ...
        @property
        def datapath(self) -> int: ...

@final
class Portable:
    """A program on its way to a datapath that speaks CCP's wire format."""

    @property
    def n_events(self) -> int: ...
    @property
    def n_instrs(self) -> int: ...
    @property
    def octets(self) -> bytes: ...
    @property
    def control_kinds(self) -> list[int]:
        """Kind on the wire of each control register of the program itself."""
    @property
    def begin(self) -> list[tuple[int, int]]:
        """Control registers, by index, that begin with a value which is to be sent with the program."""
    @property
    def carried(self) -> list[tuple[str, int, int]]:
        """Control registers that begin with what the agent knows of the flow: name, register, factor."""
    @property
    def head(self) -> list[tuple[str, int]]:
        """Report registers that the agent wants to know, and their place in a report."""
    @property
    def n_reports(self) -> int:
        """Report registers in all: the program's, and the agent's own behind them."""

@final
class WireLink:
    """A way to an agent; see `ccplane.datapath.wire.link`."""

    def __new__(
        cls, agent: os.PathLike[str], heard: Callable[[str, Any], bool], own: os.PathLike[str] | None = None
    ) -> WireLink: ...
    def announce(
        self,
        ends: tuple[tuple[str, int], tuple[str, int]],
        algorithm: str,
        window_bytes: int,
        mss_bytes: int,
    ) -> int:
        """Announce a flow to this agent and every later one; return the flow's number."""
    def measured(self, flow: int, program: int, fields: Sequence[int]) -> None:
        """Send a report; it waits while the agent has no room."""
    def remove(self, flow: int) -> None:
        """Send that a flow closed."""
    @property
    def connected(self) -> bool: ...
    def close(self) -> None: ...

@final
class WireFlow:
    """A QUIC connection that an agent may steer. Times are seconds, from any zero."""

    def __new__(
        cls, link: WireLink, now_s: float, algorithm: str, window_bytes: int, mss_bytes: int
    ) -> WireFlow: ...
    @property
    def number(self) -> int: ...
    @property
    def is_steered(self) -> bool: ...
    def hear(self, now_s: float, window_bytes: int) -> bool:
        """Do what the agent says; return whether its program has the connection."""
    def sent(self, now_s: float, bytes: int) -> None: ...
    def acked(self, sent_s: float, bytes: int) -> None:
        """Take a packet that an ACK acknowledged."""
    def ack_ended(self, now_s: float, in_flight_bytes: int, is_app_limited: bool) -> None:
        """Run the program for the packets of an ACK."""
    def lost(
        self, now_s: float, *, lost_bytes: int = 0, lost_pkts: int = 0, was_timeout: bool = False
    ) -> None:
        """Run the program for what was lost."""
    def settle(self, window_bytes: int, srtt_s: float) -> int | None:
        """Keep the window for an agent that comes; return the program's, if it has the connection."""
