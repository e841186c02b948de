"""The API of pyportus: existing scripts run after a change of their import line.

    import ccplane.pyportus as portus        # was: import pyportus as portus

Differences from portus with its kernel module:

- The datapath is always this machine's eBPF datapath. The `ipc` argument is checked and then ignored;
  `identifier` and `debug` are ignored.
- Registers have 64 bits: `update_field("Rate", ...)` accepts values above 4 GB/s.
- `datapath_info.sock_id` is unique; it is not reused after a close.
- An exception in `new_flow` or `on_report` moves the flow to the in-kernel fallback (portus logs it and
  continues). A flow without `set_program` also runs the fallback (in portus it keeps its initial window).
- `on_report` may read `r.Cwnd` and `r.Rate`, as portus documents.
- On SIGINT and SIGTERM `start` returns 0 after a clean stop (portus ends the process with 1).

`datapath_info.src_ip`, `dst_ip`, `src_port` and `dst_port` have portus' format: fields of the kernel in
network byte order, read as a native integer. On x86-64 and arm64, port 5001 is 35091, and `socket.ntohs`
returns 5001; `struct.pack("=I", src_ip)` returns the four bytes of the address. For IPv6, src_ip and dst_ip
are 0. `src_addr` and `dst_addr` (text, both families) are additions of ccplane.
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
from ccplane.datapath.protocol import DatapathReport, Program

__all__ = ["AlgBase", "DatapathInfo", "PyDatapath", "PyReport", "start", "try_compile"]

log = logging.getLogger("ccplane.pyportus")

IPCS: Final = ("netlink", "unix", "char")
"""Values of `ipc` that portus accepts on Linux."""

_SIGNATURES: Final = {
    "datapath_programs": ["self"],
    "new_flow": ["self", "datapath", "datapath_info"],
}


class AlgBase:
    """Base class of pyportus algorithms; derived classes define `datapath_programs` and `new_flow`.

    `datapath_programs(self)` returns CCP source by program name. `new_flow(self, datapath, datapath_info)`
    returns an object with `on_report(self, r)`, for one flow.
    """

    @classmethod
    def assert_implements_interface(cls, C: type) -> bool | None:  # noqa: N803 -- portus' name
        """Check that a class defines both methods with the right parameters.

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
                    f"{C.__name__}.{method} takes ({', '.join(found)}), but must take ({', '.join(expected)})"
                )
        return True


class DatapathInfo:
    """Properties of a flow, in portus' format; see the module for byte orders.

    Attributes:
        sock_id: Unique number of the flow.
        init_cwnd: Initial window of the socket [bytes].
        mss: Maximum segment size [bytes].
        src_ip: Local IPv4 address in network byte order, 0 for IPv6.
        src_port: Local port in network byte order.
        dst_ip: Peer's IPv4 address in network byte order, 0 for IPv6.
        dst_port: Peer's port in network byte order.
        src_addr: Local address as text.
        dst_addr: Peer's address as text.
    """

    def __init__(self, info: FlowInfo) -> None:
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
    """A report: `r.NAME` is the Report register NAME; `r.Cwnd` and `r.Rate` are window and rate."""

    __slots__ = ("_registers", "_report")

    def __init__(self, report: DatapathReport) -> None:
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
            f'program "{self._report.program}" does not report `{name}`; {close_names(name, known, "field")}'
        )


class PyDatapath:
    """One flow, with portus' methods."""

    def __init__(self, flow: Any) -> None:
        self._flow = flow
        self._has_program = False

    def set_program(self, program_name: str, fields: Sequence[tuple[str, int]] | None = None) -> None:
        """Run one of `datapath_programs`; registers not in `fields` start at their initial values.

        Args:
            program_name: Its name.
            fields: Names and values of control registers, `Cwnd` [bytes] and `Rate` [bytes/s].

        Raises:
            ProgramError: If the program does not exist.
            RegisterError: If the program has no such register.
            TypeError: If `fields` is not a list of (str, int).
        """
        self._flow.set_program(program_name, **_fields(fields or ()))
        self._has_program = True

    def update_field(self, reg_name: str, val: int) -> None:
        """Set a control register, `Cwnd` [bytes] or `Rate` [bytes/s].

        Raises:
            ReferenceError: Before `set_program`.
            RegisterError: If the program has no such register.
            TypeError: If `val` is not an integer.
            OverflowError: If `val` is negative or has more than 64 bits.
        """
        self.update_fields([(reg_name, val)])

    def update_fields(self, fields: Sequence[tuple[str, int]]) -> None:
        """Set several registers in one update; see `update_field`."""
        if not self._has_program:
            raise ReferenceError("this flow has no datapath program: call datapath.set_program(NAME) first")
        self._flow.set(**_fields(fields))


_OWN_NAMES: Final = {"Cwnd": "cwnd_bytes", "Rate": "rate_bytes_per_s"}


def _fields(fields: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return portus' list of names and values as keyword arguments for `flow.set`."""
    translated: dict[str, int] = {}
    for field in fields:
        if not (isinstance(field, tuple) and len(field) == 2 and isinstance(field[0], str)):
            raise TypeError(f"fields must be tuples (name, integer), not {field!r}")
        name, value = field[0], operator.index(field[1])
        if not 0 <= value <= MAX_REGISTER:
            raise OverflowError(f"{name} = {value}: registers hold 0 to 2^64 - 1")
        # In portus a window of 0 means the minimum window; here the datapath raises 1 to 2 segments.
        translated[_OWN_NAMES.get(name, name)] = max(value, 1) if name == "Cwnd" else value
    return translated


def try_compile(prog: str) -> str:
    """Return the error text of a datapath program; empty if it compiles."""
    try:
        ebpf.compile_program(prog)
    except (LangError, Several) as error:
        return str(error)
    return ""


class _Adapter(Algorithm):
    """Runs a pyportus algorithm as an algorithm of ccplane; `start` derives a class for each."""

    name = "portus"
    new_flow: ClassVar[Callable[[PyDatapath, DatapathInfo], Any]]

    def on_create(self, info: Any) -> None:
        """Create the script's object for this flow."""
        self._inner = type(self).new_flow(datapath=PyDatapath(self.flow), datapath_info=DatapathInfo(info))  # type: ignore[call-arg]

    def on_report(self, report: Any) -> None:
        """Pass a report to the script's object."""
        self._inner.on_report(PyReport(report))


def start(
    ipc: str, alg: Any, identifier: str = "", debug: bool = False, *, options: ServeOptions | None = None
) -> int:
    """Run a pyportus algorithm until SIGINT or SIGTERM; return 0.

    If programs do not compile, prints their errors to stderr and exits.

    Args:
        ipc: `netlink`, `unix` or `char`; ignored.
        alg: Instance of a class derived from AlgBase.
        identifier: Ignored; the name of portus' socket.
        debug: Ignored; enables more logging in portus.
        options: Options of the agent; not in portus.

    Raises:
        ValueError: If `ipc` is invalid, or `datapath_programs()` does not return a dict of programs.
        NotImplementedError: If the class lacks a method.
        NameError: If a method has the wrong parameters.
        LoadError: If the datapath cannot be loaded.
    """
    if ipc not in IPCS:
        raise ValueError(f"ipc must be one of {', '.join(IPCS)}, not {ipc!r}")
    cls = type(alg)
    if not issubclass(cls, AlgBase):
        raise Exception(f"{cls.__name__} must be derived from portus.AlgBase")  # the type that portus raises
    AlgBase.assert_implements_interface(cls)
    sources = _programs(alg)
    compiled = _compile_or_exit(cls, sources)
    adapter = type(
        cls.__name__,
        (_Adapter,),
        {"program": sources, "new_flow": staticmethod(alg.new_flow), "__module__": cls.__module__},
    )
    running = Running(adapter, cls.__name__, compiled, initial=None)
    log.info("ipc %r is ignored: flows come from the eBPF datapath", ipc)
    serve(Plan([running], [], running), options or ServeOptions(), on_start=_greet)
    return 0


def _greet(agent_loop: Any, ready: Plan) -> None:
    print(
        f"portus: {ready.default.name} loaded, {agent_loop.counters.flows_adopted} flows adopted; "
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
                f"datapath_programs() must return a dict of str to str, but has {name!r}: {text!r}"
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
        print("not started: fix the datapath programs above", file=sys.stderr)
        sys.exit(-1)  # as portus does
    return compiled
