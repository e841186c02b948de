from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ccp_algs import registry
from ccplane.agent import cli, runfile
from ccplane.agent import serve as serving
from ccplane.agent.commands import doctor
from ccplane.base.errors import CcpError, LoadError, Several, VerifierError
from ccplane.datapath import ebpf
from experiments.demo.runs import EDITED, MINE
from tests.unit.agent.fakes import FakeInfo, FakeStats, fake_datapath

GOOD = """
from ccp_algs import Algorithm, Param

class Mine(Algorithm):
    gain = Param(1.0, min=0.0, max=2.0)
    program = '''
        (def (cap_bytes 9) (Report (volatile acked 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (report))
    '''

    def on_report(self, report):
        self.flow.set(cwnd_bytes=20_000)
"""


def ccp(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(GOOD)
    return path


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A recording datapath in place of the kernel's."""
    datapath = fake_datapath(FakeInfo(1))
    monkeypatch.setattr(ebpf, "load", lambda options: datapath)
    monkeypatch.setattr(
        ebpf,
        "unload",
        lambda pin_dir: ebpf.Unloaded(["map flows"], ["default of a"], [f"listener of {pin_dir}"]),
    )
    monkeypatch.setattr(ebpf, "drop_capabilities", list)
    run_dir = tmp_path / "run"
    monkeypatch.setattr("ccplane.agent.runfile.RUN_DIR", run_dir)
    monkeypatch.setattr(
        "ccplane.agent.commands.serving.ServeOptions",
        lambda **given: serving.ServeOptions(**given, run_dir=run_dir),
    )
    return datapath


# The group


def test_help_lists_all_commands() -> None:
    result = ccp("--help")
    assert result.exit_code == 0
    for command in ("run", "flows", "check", "doctor", "unload", "algorithms", "new"):
        assert command in result.output


def test_debug_shows_the_traceback() -> None:
    plain, debug = ccp("run", "nobody"), ccp("--debug", "run", "nobody")
    assert plain.exit_code == debug.exit_code == 1
    assert "Traceback" not in plain.output
    assert "Traceback" in debug.output
    assert "registry.unknown" in debug.output


# run


def test_run_says_what_is_loaded_and_how_to_use_it(kernel: Any, mine: Path) -> None:
    result = ccp("run", "reno", mine, "--seconds", "0", "-p", "mine.gain=1.5", "--cc-name", "mine=ccp.m")
    assert result.exit_code == 0, result.output
    first, last = result.output.splitlines()
    assert first.startswith(
        "ccp: reno (ccp, ccp.reno), mine (ccp.m) loaded, 1 flow adopted; use: iperf3 -C ccp"
    )
    assert last.startswith("ccp: stopped; 1 flows; ")
    assert last.endswith("flows run the fallback; ccp stays registered until `ccp unload`")
    assert kernel.closed


def test_run_unloads_when_asked(kernel: Any) -> None:
    result = ccp("run", "reno", "--seconds", "0", "--unload")
    assert result.exit_code == 0
    assert result.output.rstrip().endswith("; unloaded")


def test_run_passes_options_on(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ebpf.LoadOptions] = []

    def load(options: ebpf.LoadOptions) -> Any:
        seen.append(options)
        return kernel

    monkeypatch.setattr(ebpf, "load", load)
    ccp(
        "run",
        "reno",
        "--seconds=0",
        "--max-flows=10",
        "--max-flows-per-user=3",
        "--max-flows-per-cgroup=4",
        "--heartbeat-timeout=500",
        "--report-timeout=2s",
        "--pin-dir=/sys/fs/bpf/x",
    )
    (options,) = seen
    assert (options.max_flows, options.heartbeat_timeout_ms, options.pin_dir) == (10, 500, "/sys/fs/bpf/x")
    assert (options.report_timeout_ms, ebpf.LoadOptions().report_timeout_ms) == (2000, 5000)
    assert (options.max_flows_per_user, options.max_flows_per_cgroup) == (3, 4)
    ccp("run", "reno", "--seconds=0")
    assert (seen[1].max_flows_per_user, seen[1].max_flows_per_cgroup) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        (["nobody"], "registry.unknown"),
        (["reno", "--rule", "nonsense"], "rule.syntax"),
        (["reno", "--rule", "dport=1 -> cubic"], "rule.unknown_algorithm"),
        (["reno", "--param", "beta"], "param.syntax"),
        (["reno", "--param", "bet=0.5"], "param.unknown_params"),
        (["reno", "--param", "beta=7"], "param.out_of_range"),
        (["reno", "--cc-name", "reno"], "name.invalid"),
        (["reno", "--cc-name", "reno=cubic"], "name.invalid"),
        (["reno", "--default", "cubic"], "algorithm.unknown"),
        (["reno", "reno"], "algorithm.duplicate"),
    ],
)
def test_run_refuses_what_makes_no_sense_without_traceback(
    kernel: Any, arguments: list[str], slug: str
) -> None:
    result = ccp("run", *arguments, "--seconds", "0")
    assert result.exit_code == 1
    assert f"{slug}: " in result.output
    assert "  fix  " in result.output
    assert "Traceback" not in result.output
    assert kernel.polls == 0


def test_run_prints_load_errors_as_one_line_and_exits_with_2(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(options: ebpf.LoadOptions) -> None:
        raise LoadError("load.capabilities", "CAP_BPF is missing", why="not root", fix="run as root")

    monkeypatch.setattr(ebpf, "load", load)
    result = ccp("run", "reno")
    assert result.exit_code == 2
    assert result.output == "load.capabilities: CAP_BPF is missing (not root); run as root\n"


# check


def test_check_accepts_a_good_file(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ebpf, "verify", lambda program: None)
    result = ccp("check", mine)
    assert result.exit_code == 0, result.output
    assert "program default: " in result.output
    assert "accepted by the verifier" in result.output
    assert "reports  acked" in result.output
    assert "controls cap_bytes" in result.output
    assert result.output.rstrip().endswith("OK")


def test_check_notes_that_it_may_not_ask_the_verifier(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def verify(program: object) -> None:
        raise LoadError("load.no_permission", "cannot ask", why="needs CAP_BPF")

    monkeypatch.setattr(ebpf, "verify", verify)
    result = ccp("check", mine, "--json")
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert found["ok"]
    assert found["programs"][0]["verified"] is None
    assert found["notes"] == ["not verified by the kernel: needs CAP_BPF"]


def test_check_fails_when_the_verifier_refuses(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def verify(program: object) -> None:
        raise VerifierError("verifier.refused", "too long", fix="make it shorter")

    monkeypatch.setattr(ebpf, "verify", verify)
    result = ccp("check", mine)
    assert result.exit_code == 1
    assert "verifier.refused: too long" in result.output
    assert "refused by the verifier" in result.output


def test_check_names_the_line_of_a_wrong_program(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(GOOD.replace("Ack.bytes_acked", "Ack.bytes_ackd"))
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if "ackd" in text)
    result = ccp("check", path, "--json")
    assert result.exit_code == 1
    errors = json.loads(result.output)["errors"]
    assert errors[0]["slug"] == "lang.unknown_field"
    assert errors[0]["where"].startswith(f"{path}:{line}:")
    assert "Ack.bytes_acked" in errors[0]["fix"]


def test_check_names_the_line_of_a_callback_with_other_parameters(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(GOOD.replace("def on_report(self, report)", "def on_report(self)"))
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if "on_report(self)" in text)
    (error,) = json.loads(ccp("check", path, "--json").output)["errors"]
    assert (error["slug"], error["where"]) == ("algorithm.bad_signature", f"{path}:{line}")
    assert "def on_report(self, report)" in error["fix"]


@pytest.mark.parametrize(
    ("body", "slug"),
    [
        ("raise RuntimeError", "registry.import_failed"),
        ("x = 1", "registry.no_algorithm"),
        (GOOD.replace("self.flow.set(cwnd_bytes=20_000)", "1 / 0"), "algorithm.check_failed"),
        (GOOD.replace("cwnd_bytes=20_000", "cwnd_bytes=-1"), "contract."),
        (GOOD.replace("cwnd_bytes=20_000", "cap_byte=1"), "contract.unknown_register"),
    ],
    ids=["import", "no algorithm", "raises", "negative window", "unknown register"],
)
def test_check_finds_what_is_wrong(tmp_path: Path, body: str, slug: str) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(body)
    result = ccp("check", path)
    assert result.exit_code == 1
    assert slug in result.output
    assert "Traceback" not in result.output


# doctor


def capability(ok: bool, required: bool = True) -> ebpf.Capability:
    return ebpf.Capability("datapath", ok, required, "what was found", "use another kernel")


@pytest.mark.parametrize(
    ("found", "mark", "exit_code"),
    [
        (capability(True), "OK  ", 0),
        (capability(False), "FAIL", 1),
        (capability(False, required=False), "warn", 0),
    ],
)
def test_doctor_says_what_is_missing(
    found: ebpf.Capability, mark: str, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ebpf, "probe", list)
    monkeypatch.setattr(ebpf, "try_load", lambda: [found])
    text, data = ccp("doctor"), ccp("doctor", "--json")
    assert text.exit_code == data.exit_code == exit_code
    assert text.output.startswith(f"{mark}  datapath")
    assert ("the eBPF datapath can load" in text.output) is (exit_code == 0)
    assert ("use another kernel" in text.output) is not found.ok
    parsed = json.loads(data.output)
    assert parsed["can_load"] is (exit_code == 0)
    assert parsed["capabilities"][0]["name"] == "datapath"


@pytest.mark.parametrize(
    ("allowed", "root_only"), [("reno ccp ccp.cubic", []), ("reno ccp", ["ccp.cubic"]), (None, [])]
)
def test_doctor_lists_names_that_only_root_may_choose(
    allowed: str | None, root_only: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ebpf, "probe", list)
    monkeypatch.setattr(ebpf, "try_load", list)
    for name, text in (("AVAILABLE", "reno cubic ccp ccp.cubic"), ("ALLOWED", allowed)):
        monkeypatch.setattr(doctor, name, tmp_path / name)
        if text is not None:
            (tmp_path / name).write_text(text)
    assert json.loads(ccp("doctor", "--json").output)["root_only"] == root_only
    assert ("only root may choose: ccp.cubic; " in ccp("doctor").output) == bool(root_only)


def test_doctor_needs_the_compiled_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise LoadError("load.no_native_module", "missing", fix="install")

    monkeypatch.setattr(ebpf, "probe", missing)
    monkeypatch.setattr(ebpf, "try_load", missing)
    assert ccp("doctor").exit_code == 2


# unload


def test_unload_says_what_it_removed(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ccp("unload", "--pin-dir", "/sys/fs/bpf/x")
    assert result.exit_code == 0
    assert result.output == "removed map flows\nmoved default of a\nleft listener of /sys/fs/bpf/x\n"
    monkeypatch.setattr(ebpf, "unload", lambda pin_dir: ebpf.Unloaded())
    assert ccp("unload").output == f"nothing was loaded in {ebpf.DEFAULT_PIN_DIR}\n"


# flows


class View:
    """Two looks at one flow."""

    def __init__(self) -> None:
        self.looks = 0

    def flows(self) -> list[FakeInfo]:
        return [FakeInfo(1)]

    def all_stats(self) -> list[FakeStats]:
        self.looks += 1
        return [FakeStats(1, bytes_acked=self.looks * 125_000, now_us=self.looks * 1_000_000)]

    def counters(self) -> dict[str, int]:
        return {"flows_active": 1}


@pytest.fixture
def view(monkeypatch: pytest.MonkeyPatch) -> View:
    seen = View()
    monkeypatch.setattr(ebpf, "observe", lambda pin_dir: seen)
    monkeypatch.setattr(runfile, "running", lambda pin_dir: None)
    return seen


def test_flows_once_prints_a_table(view: View) -> None:
    result = ccp("flows", "--interval", "0.01")
    assert result.exit_code == 0, result.output
    assert "10.0.0.1:40000" in result.output
    assert "1.00" in result.output  # 125,000 bytes in a second: 1 Mbit/s


def test_flows_json_is_one_document_a_line(view: View) -> None:
    result = ccp("flows", "--json", "--interval", "0.01")
    document = json.loads(result.output)
    assert document["flows"][0]["throughput_bytes_per_s"] == 125_000
    assert document["counters"] == {"flows_active": 1}
    assert document["agent_pid"] is None


def test_flows_goes_on_until_interrupted(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(seconds: float) -> None:
        if view.looks == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("ccplane.agent.commands.flows.time.sleep", sleep)
    result = ccp("flows", "--watch")
    assert result.exit_code == 0
    assert view.looks == 3


@pytest.mark.kernel_part
def test_flows_says_so_when_nothing_is_loaded(tmp_path: Path) -> None:
    result = ccp("flows", "--pin-dir", tmp_path)
    assert result.exit_code == 2
    assert result.output.startswith("load.not_loaded: ")
    assert len(result.output.splitlines()) == 1


# algorithms


def test_algorithms_are_listed_with_their_parameters() -> None:
    text, data = ccp("algorithms"), json.loads(ccp("algorithms", "--json").output)
    assert [one["name"] for one in data["algorithms"]] == registry.names()
    reno = next(one for one in data["algorithms"] if one["name"] == "reno")
    assert "beta" in [one["name"] for one in reno["params"]]
    assert f"reno         {reno['doc']}" in text.output.splitlines()
    assert reno["use"]
    assert "beta" not in text.output


def test_named_algorithms_are_described_with_the_bounds_of_their_parameters() -> None:
    text = ccp("algorithms", "int_cubic", "r_tcp_cubic").output
    assert text.startswith("int_cubic: CUBIC that learns")
    assert "\nr_tcp_cubic: CUBIC within" in text
    for entry in (
        "Use it over Wi-Fi",
        "Do not use it with untrusted",
        "Evidence: ",
        "More: docs/rtcp.md",
    ):
        assert f"\n{entry}" in text
    rows = {tuple(re.split(r" {2,}", line.strip())[:2]) for line in text.splitlines() if " = " in line}
    assert rows > {
        ("beta = 0.7", "0.3 to 0.95"),
        ("hystart = true", "true, false"),
        ("wireless_loss = keep", "cubic, keep, mild"),
        ("stale_ms = 1000", "10 to 60000 ms"),
    }


def test_module_that_does_not_import_is_listed_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "failures", lambda: {"vegas": ImportError("no module named x")})
    assert "vegas        cannot be imported: ImportError: no module named x" in ccp("algorithms").output
    assert json.loads(ccp("algorithms", "--json").output)["failures"] == {
        "vegas": "ImportError: no module named x"
    }


# new


def test_new_writes_the_algorithm_of_the_demo(tmp_path: Path) -> None:
    assert ccp("new", "mine", "--out", tmp_path).exit_code == 0
    text = (tmp_path / "mine.py").read_text()
    assert text == MINE.read_text()
    changed = {*text.splitlines()} - {*EDITED.read_text().splitlines()}
    assert sorted(line.strip() for line in changed if "=" in line) == ["congested = report.lost > 0"]


def test_new_algorithm_passes_its_check(tmp_path: Path) -> None:
    written = ccp("new", "my_vegas", "--out", tmp_path)
    assert written.exit_code == 0
    path = tmp_path / "my_vegas.py"
    assert str(path) in written.output
    assert "class MyVegas(Algorithm)" in path.read_text()
    checked = ccp("check", path)
    assert checked.exit_code == 0, checked.output


@pytest.mark.parametrize("name", ["Vegas", "my-alg", "9lives", "longer_than_11", "bär", "a b"])
def test_new_refuses_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    result = ccp("new", name, "--out", tmp_path)
    assert result.exit_code == 1
    assert "algorithm.bad_name" in result.output
    assert list(tmp_path.iterdir()) == []


def test_new_refuses_to_overwrite_and_to_shadow(tmp_path: Path) -> None:
    assert ccp("new", "mine", "--out", tmp_path).exit_code == 0
    (tmp_path / "mine.py").write_text("precious")
    result = ccp("new", "mine", "--out", tmp_path)
    assert "algorithm.file_exists" in result.output
    assert (tmp_path / "mine.py").read_text() == "precious"
    assert ccp("new", "mine", "--out", tmp_path, "--force").exit_code == 0
    assert "precious" not in (tmp_path / "mine.py").read_text()
    assert "algorithm.exists" in ccp("new", "reno", "--out", tmp_path).output
    assert "algorithm.no_directory" in ccp("new", "mine", "--out", tmp_path / "nowhere").output


# errors


def test_several_errors_are_printed_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    cli.console.show_error(Several([CcpError("a.b", "one"), LoadError("load.x", "two", "here")]), debug=False)
    assert capsys.readouterr().err == "a.b: one\nload.x: two at here\n"
