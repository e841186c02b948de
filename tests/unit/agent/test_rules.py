from __future__ import annotations

import gc
import ipaddress
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccplane.agent.cgroups import STEPS, CgroupTree
from ccplane.agent.rules import Rule, choose, parse_rule, parse_rules
from ccplane.base.errors import Several, UsageError
from tests.kernel.cgroups import cgroup as made
from tests.unit.agent.fakes import FakeInfo, outcome


def cgroup(root: Path, name: str) -> Path:
    path = root / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.procs").touch()
    return path


@pytest.mark.parametrize(
    ("text", "info", "matches"),
    [
        ("dst=10.0.0.0/8 -> a", FakeInfo(1, dst_addr="10.200.0.1"), True),
        ("dst=10.0.0.0/8 -> a", FakeInfo(1, dst_addr="11.0.0.1"), False),
        ("dst=10.0.0.2->a", FakeInfo(1, dst_addr="10.0.0.2"), True),
        ("dst=10.0.0.0/8 -> a", FakeInfo(1, dst_addr="::ffff:10.1.1.1"), True),
        ("dst=2001:db8::/32 -> a", FakeInfo(1, dst_addr="2001:db8::5", family=10), True),
        ("dst=2001:db8::/32 -> a", FakeInfo(1, dst_addr="10.0.0.1"), False),
        ("src=10.0.0.1 -> a", FakeInfo(1), True),
        ("dport=5001 -> a", FakeInfo(1, dst_port=5001), True),
        ("dport=5001 -> a", FakeInfo(1, dst_port=5002), False),
        ("dport=5000-5002 -> a", FakeInfo(1, dst_port=5002), True),
        ("dport=5000-5002 -> a", FakeInfo(1, dst_port=5003), False),
        ("sport=40000 -> a", FakeInfo(1, src_port=40000), True),
        ("dst=10.0.0.0/8, dport=5001 -> a", FakeInfo(1), True),
        ("dst=10.0.0.0/8 dport=80 -> a", FakeInfo(1), False),
    ],
)
def test_rule_matches_what_it_says(text: str, info: FakeInfo, matches: bool) -> None:
    assert parse_rule(text).matches(info) is matches


def test_first_rule_that_matches_decides() -> None:
    rules = parse_rules(["dport=80 -> a", "dst=10.0.0.0/8 -> b", "dport=5001 -> c"], ["a", "b", "c"])
    assert choose(rules, FakeInfo(1, dst_port=5001)) == "b"
    assert choose(rules, FakeInfo(1, dst_port=80)) == "a"
    assert choose(rules, FakeInfo(1, dst_addr="192.0.2.1", dst_port=9)) is None


def test_cgroup_rule_matches_the_cgroup_and_those_below(tmp_path: Path) -> None:
    video = cgroup(tmp_path, "video")
    below = cgroup(tmp_path, "video/player")
    other = cgroup(tmp_path, "other")
    rule = parse_rule(f"cgroup={video} -> a")
    assert rule.matches(FakeInfo(1, cgroup_id=video.stat().st_ino))
    assert rule.matches(FakeInfo(1, cgroup_id=below.stat().st_ino))
    assert not rule.matches(FakeInfo(1, cgroup_id=other.stat().st_ino))


def test_cgroup_made_after_the_rule_is_found(tmp_path: Path) -> None:
    tree = CgroupTree(cgroup(tmp_path, "video"))
    assert 0 not in tree
    late = cgroup(tmp_path, "video/late")
    assert late.stat().st_ino in tree


def test_cgroups_elsewhere_do_not_make_the_tree_be_read(tmp_path: Path) -> None:
    """Any user can make cgroups, so a new one must not cost a walk on the agent's thread."""
    script = """
import sys
from pathlib import Path
from ccplane.agent.rules import parse_rule
from tests.unit.agent.fakes import FakeInfo

rule = parse_rule(f"cgroup={sys.argv[1]} -> a")
listed = []
sys.addaudithook(lambda event, args: event in ("os.scandir", "os.listdir") and listed.append(args))
assert not any(rule.matches(FakeInfo(1, cgroup_id=-number)) for number in range(1, 101))
print(len(listed))
"""
    video = cgroup(tmp_path, "video")
    for number in range(50):
        cgroup(tmp_path, f"video/{number}")
    done = subprocess.run(
        [sys.executable, "-c", script, str(video)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0"


def test_a_lookup_reads_a_bounded_part_of_new_cgroups(tmp_path: Path) -> None:
    tree = CgroupTree(cgroup(tmp_path, "video"))
    late = [cgroup(tmp_path, "video/made/by/a/user")]
    late += [cgroup(tmp_path, f"video/made/{number}") for number in range(3 * STEPS)]
    ids = {one.stat().st_ino for one in late}
    found = []
    for _ in range(5):
        assert -1 not in tree
        found.append(len(ids & tree._inside))
    assert found[0] <= STEPS < len(ids) == found[-1]


def test_reports_that_were_lost_make_the_tree_be_read_again(tmp_path: Path) -> None:
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if queue > 100_000:
        pytest.skip(f"fs.inotify.max_queued_events is {queue}")
    video = cgroup(tmp_path, "video")
    tree = CgroupTree(video)
    brief = video / "brief"
    for _ in range(queue + 1):
        brief.mkdir()
        brief.rmdir()
    late = cgroup(tmp_path, "video/late")
    for _ in range(queue):
        if late.stat().st_ino in tree:
            break
    assert late.stat().st_ino in tree


def test_a_cgroup_that_is_removed_and_made_again_is_found(tmp_path: Path) -> None:
    service = cgroup(tmp_path, "system.slice/service")
    tree = CgroupTree(service)
    before = service.stat().st_ino
    shutil.rmtree(service.parent)
    assert before in tree  # its sockets may outlive it
    keep = [cgroup(tmp_path, f"other{number}") for number in range(3)]  # file systems may reuse the number
    now = cgroup(tmp_path, "system.slice/service").stat().st_ino
    below = cgroup(tmp_path, "system.slice/service/below").stat().st_ino
    assert now in tree
    assert below in tree
    assert all(one.stat().st_ino not in tree for one in keep if one.stat().st_ino != before)


def test_the_watches_end_with_the_rules(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    tree = CgroupTree(cgroup(tmp_path, "video"))
    del tree
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before


def test_real_cgroups_are_found() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make cgroups")
    with made("rules") as group:
        tree = CgroupTree(group)
        (group / "late").mkdir()
        try:
            assert (group / "late").stat().st_ino in tree
        finally:
            (group / "late").rmdir()


@pytest.mark.parametrize(
    ("text", "slug", "hint"),
    [
        ("dst=10.0.0.0/8 cubic", "rule.syntax", "--rule"),
        ("-> cubic", "rule.syntax", "--rule"),
        ("dst=10.0.0.0/8 ->", "rule.syntax", "-> cubic"),
        ("dst=10.0.0.0/8 -> two words", "rule.syntax", "-> cubic"),
        ("dst -> cubic", "rule.syntax", "dst=10.0.0.0/8"),
        ("dport= -> cubic", "rule.syntax", "dport=5001"),
        ("dest=10.0.0.0/8 -> cubic", "rule.unknown_key", "`dst`"),
        ("dst=10.0.0.0/33 -> cubic", "rule.bad_value", "10.0.0.0/8"),
        ("dst=10.0.0.1/8 -> cubic", "rule.bad_value", "10.0.0.0/8"),
        ("dport=http -> cubic", "rule.bad_value", "5001"),
        ("dport=0 -> cubic", "rule.bad_value", "5001"),
        ("dport=70000 -> cubic", "rule.bad_value", "5001"),
        ("dport=20-10 -> cubic", "rule.bad_value", "5001"),
        ("cgroup=/nowhere/at/all -> cubic", "rule.bad_value", "/sys/fs/cgroup"),
        ("dport=5001 -> cubik", "rule.unknown_algorithm", "`cubic`"),
    ],
)
def test_bad_rule_says_how_to_write_it(text: str, slug: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rules([text], ["cubic", "reno"])
    assert caught.value.slug == slug
    assert hint in caught.value.fix
    assert text in caught.value.where


def test_all_bad_conditions_are_reported_at_once() -> None:
    with pytest.raises(Several) as caught:
        parse_rules(["dst=x dport=y -> cubic", "nonsense"], ["cubic"])
    assert [error.slug for error in caught.value.errors] == [
        "rule.bad_value",
        "rule.bad_value",
        "rule.syntax",
    ]


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_prefix_rule_agrees_with_the_address_arithmetic(address: ipaddress.IPv4Address, length: int) -> None:
    network = ipaddress.ip_network((int(address), length), strict=False)
    rule = parse_rule(f"dst={network} -> a")
    assert rule.matches(FakeInfo(1, dst_addr=str(address)))
    first, last = network.network_address, network.broadcast_address
    if int(last) < 2**32 - 1:
        assert not rule.matches(FakeInfo(1, dst_addr=str(last + 1)))
    if int(first) > 0:
        assert not rule.matches(FakeInfo(1, dst_addr=str(first - 1)))


@given(st.text())
def test_any_text_is_a_rule_or_a_usage_error(text: str) -> None:
    rule = outcome(lambda: parse_rule(text))
    errors = rule.errors if isinstance(rule, Several) else [rule]
    assert isinstance(rule, Rule) or all(
        isinstance(error, UsageError) and error.slug.startswith("rule.") and error.fix for error in errors
    )
