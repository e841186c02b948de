"""The API of pyportus: scripts written for it run with their import line changed.

    import ccplane.pyportus as portus        # was: import pyportus as portus

What differs from portus with its kernel module:

- The datapath is always this machine's eBPF datapath; the `ipc` argument is checked and otherwise has no
  meaning; neither have `identifier` and `debug`.
- Registers are 64 bit: `update_field("Rate", ...)` takes values beyond 4 GB/s.
- `datapath_info.sock_id` is unique permanently, not reused after a close.
- An exception in `new_flow` or `on_report` gives that flow to the in-kernel fallback law (portus logs it and
  continues to call), and so does a flow that never calls `set_program` (in portus it stays at
  its first window).
- `on_report` may read `r.Cwnd` and `r.Rate`, as portus documents.
- SIGINT and SIGTERM make `start` return 0 after a clean stop (portus ends the process with 1).

`datapath_info.src_ip`, `dst_ip`, `src_port` and `dst_port` are what portus passes on from the CCP kernel
module: the kernel's fields in network byte order, read as a number of this machine. On x86-64 and arm64 port
5001 is 35091, and `socket.ntohs` turns it into 5001; `struct.pack("=I", src_ip)` gives the four bytes of the
address. An IPv6 flow has src_ip = dst_ip = 0. `src_addr` and `dst_addr` (text, either family) are ours, not
portus'.
"""

from __future__ import annotations

import inspect
import ipaddress
import logging
import operator
import socket
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from ccp_algs import Algorithm
from ccplane.agent.algorithms import Running
from ccplane.agent.description import Plan
from ccplane.agent.locate import locate
from ccplane.agent.serve import ServeOptions, serve
from ccplane.base.errors import LangError, Several
from ccplane.base.flows import MAX_REGISTER, FlowInfo
from ccplane.base.names import close_names
from ccplane.datapath import ebpf
from ccplane.datapath.protocol import Program, Report

__all__ = ["AlgBase", "DatapathInfo", "PyDatapath", "PyReport", "start", "try_compile"]

log = logging.getLogger("ccplane.pyportus")

IPCS: Final = ("netlink", "unix", "char")
"""What portus takes for `ipc` on Linux."""

_SIGNATURES: Final = {
    "datapath_programs": ["self"],
    "new_flow": ["self", "datapath", "datapath_info"],
}


class AlgBase:
    """Base of pyportus algorithms: derive from it and define `datapath_programs` and `new_flow`.

    `datapath_programs(self)` returns CCP source by program name. `new_flow(self, datapath, datapath_info)`
    returns an object with `on_report(self, r)`, which belongs to one flow.
    """

    @classmethod
    def assert_implements_interface(cls, C: type) -> bool | None:  # noqa: N803 -- portus' name
        """Check that a class defines both methods, with their parameters.

        Raises:
            NotImplementedError: If a method is missing.
            NameError: If its parameters have other names.
        """
        if cls is not AlgBase:
            return None
        for method, expected in _SIGNATURES.items():
            if method not in C.__dict__:
                raise NotImplementedError(
                    f"class {C.__name__} lacks the method {method}({', '.join(expected)})"
                )
            found = list(inspect.signature(C.__dict__[method]).parameters)
            if found != expected:
                raise NameError(
                    f"{C.__name__}.{method} takes ({', '.join(found)}), it must take ({', '.join(expected)})"
                )
        return True


class DatapathInfo:
    """What is known of a flow from its start, in portus' terms; see the module for byte orders.

    Attributes:
        sock_id: Number of the flow, never used twice.
        init_cwnd: Window before anyone set one [bytes].
        mss: Maximum segment size [bytes].
        src_ip: Local IPv4 address in network byte order, 0 for IPv6.
        src_port: Local port in network byte order.
        dst_ip: Peer's IPv4 address in network byte order, 0 for IPv6.
        dst_port: Peer's port in network byte order.
        src_addr: Local address as text.
        dst_addr: Peer's address as text.
    """

    def __init__(self, info: FlowInfo) -> None:
        """Translate the flow's information."""
        self.sock_id = info.flow_id
        self.init_cwnd = info.init_cwnd_bytes
        self.mss = info.mss_bytes
        self.src_ip = _raw_ipv4(info.src_addr)
        self.src_port = socket.htons(info.src_port)
        self.dst_ip = _raw_ipv4(info.dst_addr)
        self.dst_port = socket.htons(info.dst_port)
        self.src_addr = info.src_addr
        self.dst_addr = info.dst_addr


def _raw_ipv4(text: str) -> int:
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return 0
        address = address.ipv4_mapped
    (raw,) = struct.unpack("=I", address.packed)
    return int(raw)


class PyReport:
    """One report: `r.NAME` is the Report register NAME, `r.Cwnd` and `r.Rate` window and rate then."""

    __slots__ = ("_registers", "_report")

    def __init__(self, report: Report) -> None:
        """Wrap a report."""
        self._report = report
        self._registers = report.as_dict()

    def __getattr__(self, name: str) -> int:
        """Return a Report register.

        Raises:
            AttributeError: If the program has no such register.
        """
        try:
            return self._registers[name]
        except KeyError:
            pass
        if name == "Cwnd":
            return self._report.cwnd_bytes
        if name == "Rate":
            return self._report.rate_bytes_per_s
        known = [*self._registers, "Cwnd", "Rate"]
        raise AttributeError(
            f'program "{self._report.program}" reports no `{name}`; {close_names(name, known, "field")}'
        )


class PyDatapath:
    """One flow, as pyportus algorithms steer it."""

    def __init__(self, flow: Any) -> None:
        """Wrap a flow, which has no program yet."""
        self._flow = flow
        self._has_program = False

    def set_program(self, program_name: str, fields: Sequence[tuple[str, int]] | None = None) -> None:
        """Run one of `datapath_programs`, with its registers at their initial values but for `fields`.

        Args:
            program_name: Its name.
            fields: Name and value of control registers, `Cwnd` [bytes] and `Rate` [bytes/s].

        Raises:
            ProgramError: If there is no such program.
            RegisterError: If it has no such register.
            TypeError: If `fields` is no list of (str, int).
        """
        self._flow.set_program(program_name, **_fields(fields or ()))
        self._has_program = True

    def update_field(self, reg_name: str, val: int) -> None:
        """Set a control register, `Cwnd` [bytes] or `Rate` [bytes/s].

        Raises:
            ReferenceError: Before `set_program`.
            RegisterError: If the program has no such register.
            TypeError: If `val` is no integer.
            OverflowError: If it is negative or has more than 64 bits.
        """
        self.update_fields([(reg_name, val)])

    def update_fields(self, fields: Sequence[tuple[str, int]]) -> None:
        """Set several at once; see `update_field`."""
        if not self._has_program:
            raise ReferenceError(
                "this flow runs no datapath program yet: call datapath.set_program(NAME) first"
            )
        self._flow.set(**_fields(fields))


_OWN_NAMES: Final = {"Cwnd": "cwnd_bytes", "Rate": "rate_bytes_per_s"}


def _fields(fields: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return portus' list of names and values as keyword arguments of `flow.set`."""
    translated: dict[str, int] = {}
    for field in fields:
        if not (isinstance(field, tuple) and len(field) == 2 and isinstance(field[0], str)):
            raise TypeError(f"fields are tuples (name, integer), not {field!r}")
        name, value = field[0], operator.index(field[1])
        if not 0 <= value <= MAX_REGISTER:
            raise OverflowError(f"{name} = {value}: registers hold 0 to 2^64 - 1")
        # A window of 0 means the smallest one to portus' datapath, and ours has it at 2 segments.
        translated[_OWN_NAMES.get(name, name)] = max(value, 1) if name == "Cwnd" else value
    return translated


def try_compile(prog: str) -> str:
    """Return what is wrong with a datapath program; an empty text if it compiles."""
    try:
        ebpf.compile_program(prog)
    except (LangError, Several) as error:
        return str(error)
    return ""


class _Adapter(Algorithm):
    """Lets a pyportus algorithm be run like one of ours; `start` derives a class for each."""

    name = "portus"
    new_flow: ClassVar[Callable[[PyDatapath, DatapathInfo], Any]]

    def on_create(self, info: Any) -> None:
        """Make the script's object for this flow."""
        self._inner = type(self).new_flow(datapath=PyDatapath(self.flow), datapath_info=DatapathInfo(info))  # type: ignore[call-arg]

    def on_report(self, report: Any) -> None:
        """Hand a report to the script's object."""
        self._inner.on_report(PyReport(report))


def start(
    ipc: str, alg: Any, identifier: str = "", debug: bool = False, *, options: ServeOptions | None = None
) -> int:
    """Run a pyportus algorithm until SIGINT or SIGTERM.

    Programs that do not compile are printed to stderr with their lines, and the process exits.

    Args:
        ipc: `netlink`, `unix` or `char`; of no meaning here.
        alg: Instance of a class derived from AlgBase.
        identifier: Name of portus' socket; of no meaning here.
        debug: Whether portus' library logs more; of no meaning here.
        options: How to load the datapath; not in portus.

    Returns:
        0.

    Raises:
        ValueError: If `ipc` is something else, or `datapath_programs()` returns no dict of programs.
        NotImplementedError: If the class lacks a method.
        NameError: If a method has other parameters.
        LoadError: If the datapath cannot be loaded.
    """
    if ipc not in IPCS:
        raise ValueError(f"ipc must be one of {', '.join(IPCS)}, not {ipc!r}")
    cls = type(alg)
    if not issubclass(cls, AlgBase):
        raise Exception(f"{cls.__name__} must be derived from portus.AlgBase")  # portus raises just this
    AlgBase.assert_implements_interface(cls)
    sources = _programs(alg)
    compiled = _compile_or_exit(cls, sources)
    adapter = type(
        cls.__name__,
        (_Adapter,),
        {"program": sources, "new_flow": staticmethod(alg.new_flow), "__module__": cls.__module__},
    )
    running = Running(adapter, cls.__name__, compiled, initial=None)
    log.info("ipc %r has no meaning here: flows come from the eBPF datapath", ipc)
    serve(Plan([running], [], running), options or ServeOptions(), on_start=_greet)
    return 0


def _greet(plane: Any, ready: Plan) -> None:
    print(
        f"portus: {ready.default.name} loaded, {plane.counters.flows_adopted} flows adopted; "
        'use setsockopt(TCP_CONGESTION, "ccp"); Ctrl-C stops',
        file=sys.stderr,
    )


def _programs(alg: Any) -> dict[str, str]:
    programs = alg.datapath_programs()
    if not isinstance(programs, Mapping) or not programs:
        raise ValueError("datapath_programs() must return a dict with at least one program")
    for name, text in programs.items():
        if not (isinstance(name, str) and isinstance(text, str)):
            raise ValueError(
                f"datapath_programs() must return a dict of str to str; it has {name!r}: {text!r}"
            )
    return dict(programs)


def _compile_or_exit(cls: type, sources: Mapping[str, str]) -> dict[str, Program]:
    compiled: dict[str, Program] = {}
    broken = False
    for name, text in sources.items():
        origin = locate(cls, text)
        try:
            compiled[name] = ebpf.compile_program(text, name, origin.file, origin.first_line)
        except (LangError, Several) as error:
            broken = True
            print(error, file=sys.stderr)
    if broken:
        print("not started: repair the datapath programs above first", file=sys.stderr)
        sys.exit(-1)  # as portus does
    return compiled
