from __future__ import annotations

import re
from pathlib import Path as File

import pytest

from ccplane.agent.features.regime.rules import (
    MAX_ENTRIES,
    UNDECIDED,
    Entry,
    SocketRule,
    Treatment,
    entries,
    max_paths,
    parse_socket_rule,
)
from ccplane.base.errors import Several, UsageError
from telemetry.regime.detector import SHARED, SINGLE_OWNER, Regime
from telemetry.regime.follow import Path, Standing

HEADER = File(__file__).parents[3] / "native/ccp-switch/src/bpf/switch.h"
DCTCP = Treatment(congestion="dctcp", rate_bytes_per_s=1_000_000)
CUBIC = Treatment(congestion="cubic")
TREATMENTS: dict[Regime, Treatment] = {SINGLE_OWNER: DCTCP, SHARED: CUBIC}
ALONE = Standing(regime=SINGLE_OWNER, reason="quiet")
BUSY = Standing(regime=SHARED, reason="marks")
ME, NEAR, FAR = "10.0.0.1", "10.0.0.2", "192.0.2.9"
REGIMES = {Path(ME, None): BUSY, Path(ME, NEAR): ALONE, Path(ME, FAR): BUSY}


def host(address: str) -> tuple[str, int]:
    return f"::ffff:{address}", 128


def briefly(made: list[tuple[Entry, Standing]]) -> list[tuple[str, str, str, str]]:
    """Source, destination, congestion control and reason of each entry."""

    def short(prefix: tuple[str, int]) -> str:
        return prefix[0].removeprefix("::ffff:")

    return [(short(entry.src), short(entry.dst), entry.congestion, said.reason) for entry, said in made]


def test_a_rule_becomes_what_the_kernel_compares() -> None:
    rule = parse_socket_rule("src=2001:db8::/32 dport=5001-5010, sport=80 -> destination")
    ((entry, standing),) = entries([rule], TREATMENTS, {})
    assert entry == Entry(
        src=("2001:db8::", 32),
        sport=(80, 80),
        dport=(5001, 5010),
        congestion="cubic",
        asks_ecn=True,
    )
    assert standing == UNDECIDED
    ((entry, _),) = entries([parse_socket_rule("dst=10.0.0.0/8 -> destination")], TREATMENTS, {})
    assert (entry.src, entry.dst) == (("::", 0), ("::ffff:10.0.0.0", 104))


def test_sockets_of_a_rule_follow_their_own_paths_the_max_exact_first() -> None:
    assert briefly(entries([parse_socket_rule("dport=5001 -> destination")], TREATMENTS, REGIMES)) == [
        (ME, NEAR, "dctcp", "quiet"),
        (ME, FAR, "cubic", "marks"),
        (ME, "::", "cubic", "marks"),
        ("::", "::", "cubic", UNDECIDED.reason),
    ]


def test_paths_outside_of_a_rule_are_not_its() -> None:
    made = entries([parse_socket_rule("dst=10.0.0.0/8 src=10.0.0.1 -> destination")], TREATMENTS, REGIMES)
    ten = ("::ffff:10.0.0.0", 104)
    assert [entry.dst for entry, _ in made] == [host(NEAR), ten, ten]
    six = entries([parse_socket_rule("src=2001:db8::/32 -> destination")], TREATMENTS, REGIMES)
    assert briefly(six) == [("2001:db8::", "::", "cubic", UNDECIDED.reason)]


def test_without_rules_only_sockets_of_known_paths_are_touched() -> None:
    assert entries([], TREATMENTS, {}) == []
    assert briefly(entries([], TREATMENTS, {Path(ME, NEAR): ALONE})) == [(ME, NEAR, "dctcp", "quiet")]


def test_a_rule_may_follow_a_receiver_that_is_not_its_destination() -> None:
    rule = parse_socket_rule(f"dport=443 -> ::ffff:{NEAR}")
    assert rule.receiver == NEAR
    ((entry, standing),) = entries([rule], TREATMENTS, REGIMES)
    assert (entry.src, entry.dst, entry.dport) == (("::", 0), ("::", 0), (443, 443))
    assert (entry.congestion, standing) == ("dctcp", ALONE)
    ((_, unknown),) = entries([rule], TREATMENTS, {Path(ME, FAR): ALONE})
    assert unknown == UNDECIDED


def test_of_several_decisions_of_one_receiver_the_safe_one_holds() -> None:
    rule = parse_socket_rule(f"dport=443 -> {NEAR}")
    both = {Path(ME, NEAR): ALONE, Path("10.0.0.7", NEAR): BUSY}
    ((_, standing),) = entries([rule], TREATMENTS, both)
    assert standing == BUSY


def test_what_sockets_get_is_that_of_the_regime() -> None:
    regimes = {Path(ME, NEAR): ALONE, Path(ME, FAR): BUSY}
    (alone, busy) = (entry for entry, _ in entries([], TREATMENTS, regimes))
    assert (alone.needs_ecn, alone.asks_ecn, alone.rate_bytes_per_s) == (True, True, 1_000_000)
    assert (busy.needs_ecn, busy.asks_ecn, busy.rate_bytes_per_s) == (False, True, None)


@pytest.mark.parametrize(
    ("congestion", "needs"), [("dctcp", True), ("ccp.dctcp", True), ("cubic", False), ("ccp.r_hybrid", False)]
)
def test_only_what_needs_ecn_asks_for_it(congestion: str, needs: bool) -> None:
    treatments: dict[Regime, Treatment] = {SINGLE_OWNER: Treatment(congestion=congestion), SHARED: CUBIC}
    ((entry, _),) = entries([SocketRule({})], treatments, {})
    assert entry.asks_ecn is needs


def test_only_the_sockets_of_some_paths_are_reported_of() -> None:
    rules = [parse_socket_rule(f"sport=1 -> {NEAR}"), parse_socket_rule("sport=2 -> destination")]
    reported = [entry.emit for entry, _ in entries(rules, TREATMENTS, REGIMES, emit={Path(ME, NEAR)})]
    assert reported == [True, True, False, False, False]


def test_a_cgroup_is_known_by_its_number(tmp_path: File) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "cgroup.procs").touch()
    ruled, outer = (
        parse_socket_rule(f"cgroup={inner} -> destination"),
        parse_socket_rule("dport=1 -> destination"),
    )
    made = entries([ruled, outer], TREATMENTS, {}, cgroup=tmp_path)
    assert [entry.cgroup for entry, _ in made] == [inner.stat().st_ino, tmp_path.stat().st_ino]


@pytest.mark.parametrize(
    ("texts", "maximum"),
    [
        ([], 4096),
        (["dport=1 -> destination"], 4095),
        (["dport=1 -> destination", "dport=2 -> destination", f"dport=3 -> {NEAR}"], 2046),
        (["dport=1 -> destination"] * 2048, 1),
    ],
)
def test_as_many_paths_are_known_as_the_kernels_table_has_room_for(texts: list[str], maximum: int) -> None:
    rules = [parse_socket_rule(text) for text in texts]
    regimes = {Path(ME, f"10.1.{number // 250}.{number % 250}"): BUSY for number in range(maximum)}
    assert max_paths(rules) == maximum
    assert len(entries(rules, TREATMENTS, regimes)) <= MAX_ENTRIES


def test_the_table_is_as_long_as_the_kernels() -> None:
    assert re.search(r"#define SWITCH_MAX_RULES (\d+)", HEADER.read_text())[1] == str(MAX_ENTRIES)


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("", "rule.syntax"),
        ("-> 10.0.0.2", "rule.syntax"),
        ("dport=1 ->", "rule.syntax"),
        ("dport", "rule.syntax"),
        ("dport=1 dport=2 -> destination", "rule.syntax"),
        ("dprt=1 -> destination", "rule.unknown_key"),
        ("dport=70000 -> destination", "rule.bad_value"),
        ("dport=1 -> cubic", "rule.bad_value"),
        ("cgroup=/nowhere -> destination", "rule.bad_value"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(text: str, slug: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_socket_rule(text)
    assert caught.value.slug == slug
    assert caught.value.fix


def test_all_that_is_wrong_with_a_rule_is_reported_at_once() -> None:
    with pytest.raises(Several) as caught:
        parse_socket_rule("dport=0 src=nobody -> destination")
    assert [error.slug for error in caught.value.errors] == ["rule.bad_value"] * 2
