from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ccplane.agent import cli
from ccplane.agent.features.rtcp.rules import BoundRule, parse_bound_rule
from ccplane.base.errors import Several, UsageError


def refusal(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse_bound_rule(text)
    return caught.value


def test_a_rule_becomes_what_the_kernel_compares() -> None:
    assert parse_bound_rule("dst=10.0.0.0/8 sport=443 -> limit") == BoundRule(
        dst=("::ffff:10.0.0.0", 104), sport=(443, 443), bounded=True
    )
    assert parse_bound_rule("dst=2001:db8::/32 -> except") == BoundRule(dst=("2001:db8::", 32), bounded=False)
    assert parse_bound_rule("sport=80-90 -> limit") == BoundRule(sport=(80, 90), bounded=True)


@pytest.mark.parametrize(
    ("text", "slug", "fix"),
    [
        ("-> except", "rule.syntax", "-> except"),
        ("sport=80 ->", "rule.syntax", "-> except"),
        ("sport=80 -> exempt", "rule.bad_outcome", "`except`"),
        ("sport=80 sport=81 -> limit", "rule.syntax", "separate rule for each"),
        ("port=80 -> limit", "rule.unknown_key", "`sport`"),
        ("dst=10.0.0.1/8 -> limit", "rule.bad_value", "dst=10.0.0.0/8"),
        ("cgroup=/nowhere -> limit", "rule.bad_value", "cgroup=/sys/fs/cgroup/NAME"),
    ],
)
def test_a_rule_that_is_wrong_says_how_to_write_it(text: str, slug: str, fix: str) -> None:
    error = refusal(text)
    assert error.slug == slug
    assert fix in error.fix


def test_all_rules_that_are_wrong_are_reported_before_anything_is_loaded() -> None:
    done = CliRunner().invoke(
        cli.app, ["rtcp", "attach", "--rule", "dst=x -> limit", "--rule", "sport=80 -> no"]
    )
    assert isinstance(done.exception, Several) or done.exit_code == 1
    assert "rule.bad_value" in done.stderr
    assert "rule.bad_outcome" in done.stderr
