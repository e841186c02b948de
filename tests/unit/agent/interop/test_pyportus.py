from __future__ import annotations

import socket
import struct
import textwrap
from pathlib import Path
from typing import Any

import pytest

import ccplane.pyportus as portus
from ccplane.agent import serve as serving
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.features.interop.pyportus import DatapathInfo, PyDatapath, PyReport
from ccplane.agent.serve import ServeOptions
from ccplane.base.errors import ParamError, ProgramError, RegisterError
from ccplane.datapath import ebpf
from tests.unit.agent.fakes import (
    FakeClosed,
    FakeCreated,
    FakeDatapath,
    FakeInfo,
    FakeReport,
    FakeStats,
    Written,
    fake_datapath,
)

PROGRAM = """\
    (def (cap 0) (Report (volatile acked 0) (volatile timeout false)))
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (:= Report.timeout Flow.was_timeout)
        (report)
    )
"""


class HalvingFlow:
    """An algorithm as in a pyportus script."""

    def __init__(self, datapath: Any, datapath_info: Any) -> None:
        self.datapath = datapath
        self.datapath_info = datapath_info
        self.reports: list[tuple[int, int]] = []
        self.datapath.set_program("default", [("Cwnd", 10 * datapath_info.mss), ("cap", 5)])

    def on_report(self, r: Any) -> None:
        self.reports.append((r.acked, r.timeout))
        self.datapath.update_field("Cwnd", r.Cwnd // 2)


def one_program(self: portus.AlgBase) -> dict[str, str]:
    return {"default": PROGRAM}


class Halving(portus.AlgBase):
    def __init__(self) -> None:
        self.flows: list[HalvingFlow] = []

    def datapath_programs(self) -> dict[str, str]:
        return {"default": PROGRAM, "other": PROGRAM.replace("cap", "limit")}

    def new_flow(self, datapath: Any, datapath_info: Any) -> HalvingFlow:
        self.flows.append(HalvingFlow(datapath, datapath_info))
        return self.flows[-1]


@pytest.fixture
def datapath(monkeypatch: pytest.MonkeyPatch) -> FakeDatapath:
    made = fake_datapath()
    monkeypatch.setattr(ebpf, "load", lambda options: made)
    monkeypatch.setattr(ebpf, "unload", lambda pin_dir: [])
    monkeypatch.setattr(ebpf, "drop_capabilities", list)
    return made


def run(alg: Any, tmp_path: Path, ipc: str = "netlink", *more: Any) -> int:
    return portus.start(ipc, alg, *more, options=ServeOptions(duration_s=0.01, run_dir=tmp_path))


def test_script_steers_flows(datapath: FakeDatapath, tmp_path: Path) -> None:
    alg = Halving()
    datapath.feed(FakeCreated(FakeInfo(1)))
    datapath.feed(FakeReport(1, 1, acked=3_000, timeout=1), FakeClosed(1, FakeStats(1)))
    datapath.there[1] = FakeInfo(1)
    assert run(alg, tmp_path) == 0
    assert datapath.written == [
        Written(1, 14_480, None, 1, {"cap": 5}),
        Written(1, 7_240, None, None, None),
    ]
    (flow,) = alg.flows
    assert flow.reports == [(3_000, 1)]
    assert datapath.names == {"ccp": False}
    assert datapath.closed


def test_flow_that_sets_no_program_runs_the_fallback(datapath: FakeDatapath, tmp_path: Path) -> None:
    class Silent(portus.AlgBase):
        datapath_programs = one_program

        def new_flow(self, datapath: Any, datapath_info: Any) -> object:
            return object()

    datapath.feed(FakeCreated(FakeInfo(1)))
    run(Silent(), tmp_path)
    assert datapath.written == [Written(1, None, None, 0, None)]


def test_exception_in_a_script_costs_the_flow_only(datapath: FakeDatapath, tmp_path: Path) -> None:
    class Broken(portus.AlgBase):
        datapath_programs = one_program

        def new_flow(self, datapath: Any, datapath_info: Any) -> Any:
            if datapath_info.sock_id == 1:
                raise ValueError("no")
            return HalvingFlow(datapath, datapath_info)

    datapath.feed(FakeCreated(FakeInfo(1)), FakeCreated(FakeInfo(2)))
    run(Broken(), tmp_path)
    assert [(w.flow_id, w.program) for w in datapath.written] == [(1, 0), (2, 1)]


@pytest.mark.parametrize("ipc", ["netlink", "unix", "char"])
def test_every_ipc_of_portus_is_taken(datapath: FakeDatapath, tmp_path: Path, ipc: str) -> None:
    assert run(Halving(), tmp_path, ipc) == 0
    assert run(Halving(), tmp_path, ipc, "hello", True) == 0  # identifier and debug


class WithoutFlows(portus.AlgBase):
    datapath_programs = one_program


class OfOtherParameters(portus.AlgBase):
    datapath_programs = one_program

    def new_flow(self, control: Any, info: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("ipc", "alg", "error", "says"),
    [
        ("tcp", Halving, ValueError, "netlink"),
        ("netlink", object, Exception, "AlgBase"),
        ("netlink", WithoutFlows, NotImplementedError, "new_flow"),
        ("netlink", OfOtherParameters, NameError, "datapath_info"),
    ],
)
def test_what_cannot_run_is_refused(ipc: str, alg: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        portus.start(ipc, alg())


@pytest.mark.parametrize("programs", [{}, [], None, {"default": 7}, {7: PROGRAM}])
def test_programs_that_are_none_are_refused(programs: Any) -> None:
    class Wrong(portus.AlgBase):
        def datapath_programs(self) -> Any:
            return programs

        def new_flow(self, datapath: Any, datapath_info: Any) -> None:
            pass

    with pytest.raises(ValueError, match="dict"):
        portus.start("netlink", Wrong())


def test_program_that_does_not_compile_is_printed_with_its_line_and_ends_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "portus_script.py"
    script.write_text(
        textwrap.dedent(
            '''
            import ccplane.pyportus as portus

            class Bad(portus.AlgBase):
                def datapath_programs(self):
                    return {
                        "first": """\\
                            (def (Report (volatile acked 0)))
                            (when true
                                (:= Report.acked Ack.bytes_ackd)
                                (report))
                        """,
                        "second": "(nonsense",
                    }

                def new_flow(self, datapath, datapath_info):
                    pass
            '''
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    import portus_script

    line = next(i for i, text in enumerate(script.read_text().splitlines(), 1) if "ackd" in text)
    with pytest.raises(SystemExit) as caught:
        portus.start("netlink", portus_script.Bad())
    assert caught.value.code == -1
    printed = capsys.readouterr().err
    assert f"{script}:{line}:" in printed
    assert '"second"' in printed


def test_try_compile_reports_what_is_wrong() -> None:
    assert portus.try_compile(PROGRAM) == ""
    assert "bytes_ackd" in portus.try_compile(PROGRAM.replace("bytes_acked", "bytes_ackd"))


class RecordedFlow:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def set(self, **values: int) -> None:
        self.calls.append(("set", values))

    def set_program(self, name: str, **values: int) -> None:
        self.calls.append((name, values))


def test_updates_are_translated() -> None:
    flow = RecordedFlow()
    datapath = PyDatapath(flow)
    datapath.set_program("default")
    datapath.set_program("other", [("Rate", 5), ("cap", 6)])
    datapath.update_field("Cwnd", 14_480)
    datapath.update_fields([("Rate", 5_000_000_000), ("cap", 2**64 - 1)])
    datapath.update_field("Cwnd", 0)
    assert flow.calls == [
        ("default", {}),
        ("other", {"rate_bytes_per_s": 5, "cap": 6}),
        ("set", {"cwnd_bytes": 14_480}),
        ("set", {"rate_bytes_per_s": 5_000_000_000, "cap": 2**64 - 1}),
        ("set", {"cwnd_bytes": 1}),
    ]


def test_update_before_a_program_is_a_reference_error() -> None:
    flow = RecordedFlow()
    with pytest.raises(ReferenceError, match="set_program"):
        PyDatapath(flow).update_field("Cwnd", 14_480)
    with pytest.raises(ReferenceError):
        PyDatapath(flow).update_fields([("Cwnd", 14_480)])
    assert flow.calls == []


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ([("Cwnd", 1.5)], TypeError),
        ([("Cwnd", "5")], TypeError),
        ([("Cwnd", -1)], OverflowError),
        ([("cap", 2**64)], OverflowError),
        ([["Cwnd", 5]], TypeError),
        ([("Cwnd",)], TypeError),
        ([(5, "Cwnd")], TypeError),
    ],
)
def test_fields_of_the_wrong_type_are_refused(fields: Any, error: type[Exception]) -> None:
    flow = RecordedFlow()
    datapath = PyDatapath(flow)
    with pytest.raises(error):
        datapath.set_program("default", fields)
    with pytest.raises(ReferenceError):
        datapath.update_field("cap", 1)


def test_unknown_names_are_refused_by_the_flow(datapath: FakeDatapath, tmp_path: Path) -> None:
    caught: list[Exception] = []

    class Curious(portus.AlgBase):
        datapath_programs = one_program

        def new_flow(self, datapath: Any, datapath_info: Any) -> Any:
            flow = HalvingFlow(datapath, datapath_info)
            for call in (
                lambda: datapath.set_program("nothing"),
                lambda: datapath.update_field("capp", 1),
                lambda: datapath.update_field("acked", 1),
                lambda: datapath.update_field("Cwnd", 2**63),
            ):
                try:
                    call()
                except Exception as error:  # portus raises plain exceptions here
                    caught.append(error)
            return flow

    datapath.feed(FakeCreated(FakeInfo(1)))
    run(Curious(), tmp_path)
    assert [type(error) for error in caught] == [ProgramError, RegisterError, RegisterError, ParamError]


def test_report_registers_are_attributes_and_win_over_what_the_report_has_itself() -> None:
    class Native(FakeReport):
        timeout = False  # every report says whether a timeout made it

    r = PyReport(Native(1, acked=7, timeout=1))
    assert (r.acked, r.timeout) == (7, 1)
    assert (r.Cwnd, r.Rate) == (14_480, 0)
    assert PyReport(Native(1, Cwnd=3)).Cwnd == 3


def test_unknown_field_of_a_report_is_an_attribute_error_with_close_names() -> None:
    with pytest.raises(AttributeError, match="did you mean `acked`"):
        _ = PyReport(FakeReport(1, acked=7)).acket


def test_addresses_and_ports_are_the_kernels_raw_numbers() -> None:
    info = DatapathInfo(
        FakeInfo(9, src_addr="10.1.2.3", src_port=40_000, dst_addr="192.0.2.7", dst_port=5_001)
    )
    assert (info.sock_id, info.init_cwnd, info.mss) == (9, 14_480, 1_448)
    assert struct.pack("=I", info.src_ip) == bytes([10, 1, 2, 3])
    assert struct.pack("=I", info.dst_ip) == socket.inet_aton("192.0.2.7")
    assert struct.pack("=H", info.src_port) == struct.pack("!H", 40_000)
    assert socket.ntohs(info.dst_port) == 5_001


def test_mapped_address_is_ipv4_and_ipv6_is_zero() -> None:
    info = DatapathInfo(FakeInfo(9, src_addr="::ffff:10.1.2.3", dst_addr="2001:db8::1", family=10))
    assert struct.pack("=I", info.src_ip) == bytes([10, 1, 2, 3])
    assert info.dst_ip == 0
    assert info.dst_addr == "2001:db8::1"


def test_default_options_load_the_default_datapath(
    datapath: FakeDatapath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[ServeOptions] = []

    def serve(plan: Any, options: ServeOptions, *, on_start: Any) -> AgentLoop:
        seen.append(options)
        return serving.serve(plan, ServeOptions(duration_s=0.0, run_dir=tmp_path), on_start=on_start)

    monkeypatch.setattr("ccplane.agent.features.interop.pyportus.serve", serve)
    assert portus.start("netlink", Halving()) == 0
    assert seen[0].load == ebpf.LoadOptions()
    assert seen[0].duration_s is None
