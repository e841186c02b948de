from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ccplane.agent.commands.first import text_for
from ccplane.base.errors import CcpError, Several
from experiments.errors import ScenarioError
from experiments.netlab.spec import Direction, Int, IntNode, Link, Topology
from experiments.runs import reading
from experiments.runs.grid import Grid
from experiments.scenario import Dumbbell, FlowSpec, Graph, ParkingLot, PointToPoint, Scenario, SetLink
from experiments.traffic import Quic

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "experiments/scenarios").glob("*.yaml"))

TEXT = """
name: a try
topology: {kind: point_to_point, forward: {rate_bytes_per_s: 12.5e6, delay_us: 25000}}
flows:
  - {name: a, sender: sender, receiver: receiver, algorithm: kernel/cubic}
  - {name: b, sender: sender, receiver: receiver, algorithm: cubic, params: {beta: 0.8}, start_s: 1}
duration_s: 10
"""
TELEMETRY = Int(nodes=(IntNode("sender", ("source", "sink")), IntNode("receiver", ("source", "sink"))))
QUIC = "traffic: {kind: quic, objects: [1000]}"
ALGORITHM = """
from ccp_algs import Algorithm
from ccp_algs.example_aimd import AimdFold


class Mine(Algorithm):
    program = AimdFold

    def on_report(self, report):
        self.flow.set(cwnd_bytes=10000)
"""


def parse(text: str) -> Scenario:
    return Scenario.parse(reading.parse_yaml(text, "x.yaml"), "x.yaml")


def problems(text: str) -> list[CcpError]:
    with pytest.raises(CcpError) as caught:
        parse(text)
    error = caught.value
    return list(error.errors) if isinstance(error, Several) else [error]


def with_event(event: str) -> str:
    return f"{TEXT}events:\n  - {event}\n"


def test_a_number_with_an_exponent_is_a_number() -> None:
    assert reading.parse_yaml("[12.5e6, 1e3, 1.5, -2e-3, 1e, e3]") == [12.5e6, 1e3, 1.5, -2e-3, "1e", "e3"]


def test_what_yaml_cannot_be_is_reported_with_its_line() -> None:
    (error,) = problems("name: a\nflows: [1\n")
    assert error.slug == "scenario.syntax"
    assert error.where.startswith("x.yaml:3")


def test_a_key_that_stands_twice_is_an_error() -> None:
    (error,) = problems(TEXT + "name: another\n")
    assert error.slug == "scenario.syntax"
    assert "duplicate key `name`" in error.why


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("[&a {x: 1, y: 2}, {<<: *a, y: 3}]", [{"x": 1, "y": 2}, {"x": 1, "y": 3}]),
        ("[&a {x: 1}, {y: 3, <<: *a}]", [{"x": 1}, {"x": 1, "y": 3}]),
        (
            "[&a {x: 1}, &b {<<: *a, y: 2}, {<<: [*b, {z: 3}], x: 4}]",
            [{"x": 1}, {"x": 1, "y": 2}, {"z": 3, "x": 4, "y": 2}],
        ),
        ("{<<: {x: 1}}", {"x": 1}),
        ("{a: &a {x: 1}, b: *a, c: {<<: *a}, d: {<<: *a}}", {name: {"x": 1} for name in "abcd"}),
        ("{'<<': 1, =: 2}", {"<<": 1, "=": 2}),
        ("{a: &a [1], b: *a}", {"a": [1], "b": [1]}),
    ],
)
def test_mappings_are_merged(text: str, read: object) -> None:
    assert reading.parse_yaml(text) == read


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{<<: 1}", "expected a mapping or list of mappings for merging"),
        ("[&a {x: 1}, {<<: *a, <<: *a}]", "duplicate key `<<`"),
        ("[&a {x: 1}, {<<: *a, x: 2, x: 3}]", "duplicate key `x`"),
        ("[*a]", "undefined alias"),
    ],
)
def test_wrong_merges_are_reported(text: str, why: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        reading.parse_yaml(text, "x.yaml")
    assert caught.value.slug == "scenario.syntax"
    assert why in caught.value.why
    assert caught.value.where.startswith("x.yaml")


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(tmp_path / "none.yaml")
    assert caught.value.slug == "scenario.no_file"


def test_it_reads_what_it_wrote(tmp_path: Path) -> None:
    scenario = parse(with_event("{kind: set_link, at_s: 1, link: link, fields: {delay_us: 5}}"))
    scenario.save(tmp_path / "again.yaml")
    again = Scenario.load(tmp_path / "again.yaml")
    assert again == scenario
    assert again.flows[1].params == {"beta": 0.8}


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(TEXT).save(tmp_path / "none" / "x.yaml")
    assert caught.value.slug == "scenario.cannot_write"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_can_be_run(example: Path) -> None:
    if "axes:" in example.read_text():
        assert len(Grid.load(example).points()) > 1
    else:
        assert Scenario.load(example).flows


def test_the_examples_of_the_documents_can_be_run(tmp_path: Path) -> None:
    text = (ROOT / "docs/experiments.md").read_text()
    scenario, grid = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "lossy.yaml").write_text(scenario)
    (tmp_path / "grid.yaml").write_text(grid)
    (tmp_path / "mine.py").write_text(text_for("mine"))
    assert len(Grid.load(tmp_path / "grid.yaml").points()) == 3 * 2


@pytest.mark.parametrize(
    ("was", "becomes", "slug", "where", "says"),
    [
        ("duration_s", "duration", "bad_field", "duration", "`duration_s`"),
        ("rate_bytes_per_s", "rate", "bad_field", "topology.forward.rate", "`rate_bytes_per_s`"),
        ("point_to_point", "point2point", "bad_field", "topology.kind", "`point_to_point`"),
        ("25000", "-1", "bad_field", "topology.forward.delay_us", ">= 0"),
        ("start_s: 1", "start_s: x", "bad_field", "flows[1].start_s", "Expected `float`"),
        ("name: b, sender: sender", "name: b, sender: sendr", "unknown_name", "flows[1].sender", "`sender`"),
        ("name: b", "name: a", "duplicate", "flows", "`a`"),
        ("receiver: receiver, algorithm: kernel", "receiver: sender, algorithm: kernel", "bad_field",
         "flows[0].receiver", "itself"),
        ("start_s: 1", "start_s: 10", "time", "flows[1].start_s", "the end of the run"),
        ("start_s: 1", "stop_s: 11", "time", "flows[1].stop_s", "after the end"),
        ("start_s: 1", "start_s: 2, stop_s: 1", "time", "flows[1].stop_s", "starts at 2 s"),
        ("start_s: 1", "ecn: true", "bad_field", "flows[1].ecn", "share host `sender`"),
        ("kernel/cubic", "cubik", "unknown_algorithm", "flows[0].algorithm", "kernel/cubik"),
        ("kernel/cubic", "kernel/ccp.cubic", "unknown_algorithm", "flows[0].algorithm", "cubic"),
        ("kernel/cubic", "mine.py", "unknown_algorithm", "flows[0].algorithm", "mine.py"),
        ("beta", "betta", "bad_param", "flows[1].params.betta", "`beta`"),
        ("0.8", "8.0", "bad_param", "flows[1].params.beta", "0.3 <= beta <= 0.95"),
        ("algorithm: cubic", "algorithm: kernel/reno", "bad_param", "flows[1].params", "kernel algorithm"),
        ("kernel/cubic", f"kernel/cubic, {QUIC}", "unknown_algorithm", "flows[0].algorithm", "quinn/cubic"),
        ("kernel/cubic", f"quinn/bbr, {QUIC}", "unknown_algorithm", "flows[0].algorithm", "quinn/cubic"),
        ("kernel/cubic", "quinn/cubic", "unknown_algorithm", "flows[0].algorithm", "the traffic quic"),
        ("kernel/cubic", f"quinn/cubic, params: {{beta: 0.8}}, {QUIC}", "bad_param", "flows[0].params",
         "quinn's own"),
        ("kernel/cubic", f"cubic, params: {{beta: 8.0}}, {QUIC}", "bad_param", "flows[0].params.beta",
         "0.95"),
        ("rate_bytes_per_s: 12.5e6", "trace: none.up", "no_file", "topology", "none.up"),
        ("25000}", "25000}, telemetry: {nodes: [{name: sendr, roles: [sink]}]}", "bad_field",
         "topology.telemetry.nodes[0].name", "`sender`"),
        ("duration_s", "captures: [link<, lnk>]\nduration_s", "unknown_name", "captures[1]", "`link>`"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(was: str, becomes: str, slug: str, where: str, says: str) -> None:
    reported = problems(TEXT.replace(was, becomes, 1))
    error = next(one for one in reported if one.slug == f"scenario.{slug}")
    assert error.where.startswith(f"x.yaml: {where}")
    assert says in str(error)


@pytest.mark.parametrize(
    ("event", "slug", "where", "says"),
    [
        ("set_link, at_s: 11, link: link, fields: {}", "time", ".at_s", "lasts 10 s"),
        ("set_link, at_s: 1, link: lnik, fields: {}", "unknown_name", ".link", "`link`"),
        ("set_link, at_s: 1, link: link>, fields: {delay: 1}", "bad_field", ".fields.delay",
         "delay"),
        ("set_link, at_s: 1, link: link>, fields: {trace: none}", "no_file",
         ".fields.trace", "none"),
        ("set_route, at_s: 1, path: [sender, router]", "bad_field", ".path[1]", "router"),
        ("set_param, at_s: 1, param: beta, value: 0.5", "bad_field", "", "`flow`"),
        ("set_param, at_s: 1, flow: c, param: beta, value: 0.5", "unknown_name", ".flow",
         "a, b"),
        ("set_param, at_s: 1, flow: a, param: beta, value: 0.5", "bad_param", ".param",
         "kernel"),
        ("set_param, at_s: 1, flow: b, param: beta, value: 5.0", "bad_param", ".param",
         "0.95"),
        ("set_param, at_s: 1, algorithm: reno, param: beta, value: 0.5", "unknown_name",
         ".algorithm", "cubic"),
        ("edit, at_s: 1, algorithm: reno, becomes: cubic", "unknown_name", ".algorithm", "cubic"),
        ("set_parm, at_s: 1", "bad_field", ".kind", "`set_param`"),
    ],
)  # fmt: skip
def test_a_wrong_event_is_named(event: str, slug: str, where: str, says: str) -> None:
    error = next(one for one in problems(with_event(f"{{kind: {event}}}")) if one.slug == f"scenario.{slug}")
    assert error.where == f"x.yaml: events[0]{where}"
    assert says in str(error)


@pytest.mark.parametrize("algorithm", ["quinn/cubic", "cubic"])
def test_quic_flows_have_quinns_cubic_or_an_algorithm_of_ccplane(algorithm: str) -> None:
    flow = parse(TEXT.replace("kernel/cubic", f"{algorithm}, {QUIC}", 1)).flows[0]
    assert (flow.algorithm, flow.traffic) == (algorithm, Quic((1000,)))


def test_all_problems_come_in_one_report() -> None:
    text = TEXT.replace("kernel/cubic", "cubik").replace("0.8", "8.0").replace("start_s: 1", "start_s: 11")
    slugs = {one.slug for one in problems(text)}
    assert slugs == {"scenario.unknown_algorithm", "scenario.bad_param", "scenario.time"}
    fields = TEXT.replace("duration_s", "duration").replace("start_s: 1", "start_s: x")
    fields = fields.replace("kernel/cubic", "3")
    assert [one.where for one in problems(fields)] == [
        "x.yaml: duration",
        "x.yaml: flows[0].algorithm",
        "x.yaml: flows[1].start_s",
        "x.yaml: duration_s",
    ]


def test_an_event_may_build_on_an_earlier_one() -> None:
    to_trace = "{kind: set_link, at_s: 2, link: link>, fields: {trace: %s, rate_bytes_per_s: null}}"
    trace = ROOT / "tests/unit/experiments/data/steps.up"
    first = with_event(to_trace % trace)
    again = "  - {kind: set_link, at_s: 1, link: link>, fields: {rate_bytes_per_s: 1e6}}\n"
    assert len(parse(first + again).events) == 2
    after = again.replace("at_s: 1", "at_s: 3")
    assert "not both" in str(problems(first + after)[0])


def test_a_scenario_made_in_python_is_checked_as_one_from_yaml() -> None:
    scenario = parse(TEXT)
    wrong: Any = scenario.replace(duration_s="long")
    with pytest.raises(ScenarioError) as caught:
        wrong.validate()
    assert caught.value.where == "duration_s"
    scenario.validate()


def test_a_bare_topology_is_a_graph() -> None:
    topology = Topology(hosts=("a", "b"), links=(Link("wire", "a", "b"),))
    scenario = Scenario(
        name="x", topology=topology, flows=(FlowSpec("f", "a", "b", "kernel/reno"),), duration_s=1
    )
    assert isinstance(scenario.topology, Graph)
    scenario.validate()
    assert scenario.network == topology


@pytest.mark.parametrize(
    "shape",
    [
        PointToPoint(Direction(), telemetry=TELEMETRY),
        Dumbbell(1, Direction(), telemetry=TELEMETRY),
        ParkingLot(1, Direction(), telemetry=TELEMETRY),
    ],
    ids=lambda shape: type(shape).__name__,
)
def test_telemetry_of_a_shape_is_that_of_its_graph(shape: PointToPoint | Dumbbell | ParkingLot) -> None:
    assert shape.expanded().telemetry == TELEMETRY
    assert Graph.of(shape.expanded()).expanded() == shape.expanded()


def test_the_hash_changes_with_every_field() -> None:
    scenario = parse(TEXT)
    others = [
        scenario.replace(seed=2),
        scenario.replace(duration_s=11),
        scenario.replace(events=(SetLink(1, "link", {"delay_us": 1}),)),
        scenario.replace(topology=PointToPoint(Direction(rate_bytes_per_s=12.5e6, delay_us=25_001))),
        scenario.replace(topology=msgspec.structs.replace(scenario.topology, telemetry=TELEMETRY)),
        scenario.replace(captures=("link>",)),
        scenario.replace(flows=scenario.flows[:1]),
    ]
    assert len({one.content_hash() for one in [scenario, *others]}) == len(others) + 1
    assert parse(TEXT).content_hash() == scenario.content_hash()


def test_the_hash_is_the_same_when_defaults_are_written_out() -> None:
    scenario = parse(TEXT)
    spelled = Scenario.parse(reading.full(scenario))
    assert spelled == scenario
    assert spelled.content_hash() == scenario.content_hash()


def test_the_hash_of_a_shape_is_that_of_its_graph() -> None:
    scenario = parse(TEXT)
    graph = scenario.replace(topology=Graph.of(scenario.network))
    assert graph.content_hash() == scenario.content_hash()


def test_the_hash_follows_the_contents_of_files_and_not_their_places(tmp_path: Path) -> None:
    hashes = {}
    for place in ("here", "there", "edited", "retimed"):
        folder = tmp_path / place
        folder.mkdir()
        (folder / "mine.py").write_text(ALGORITHM + ("# edited\n" if place == "edited" else ""))
        (folder / "link.up").write_text("1\n3\n" if place == "retimed" else "1\n2\n")
        text = TEXT.replace("kernel/cubic", "mine.py").replace("rate_bytes_per_s: 12.5e6", "trace: link.up")
        (folder / "x.yaml").write_text(text)
        hashes[place] = Scenario.load(folder / "x.yaml").content_hash()
    assert hashes["here"] == hashes["there"]
    assert len(set(hashes.values())) == 3


def test_the_hash_follows_modules_alongside_an_algorithm(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import helper\n" + ALGORITHM)
    hashes = set()
    for text in ("GAIN = 1\n", "GAIN = 2\n"):
        (tmp_path / "helper.py").write_text(text)
        (tmp_path / "x.yaml").write_text(TEXT.replace("kernel/cubic", "mine.py"))
        hashes.add(Scenario.load(tmp_path / "x.yaml").content_hash())
    assert len(hashes) == 2


def test_the_hash_follows_what_an_algorithm_is_made_of() -> None:
    from experiments.runs import files

    names = {path.name for path in files.sources("cubic")}
    assert {"cubic.py", "cubic_core.py", "slow_start.py", "episodes.py"} <= names
    assert "reno.py" not in names
