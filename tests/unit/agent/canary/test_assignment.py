from __future__ import annotations

import pytest

from ccplane.agent.canary.assignment import Assignment, Share
from ccplane.base.errors import UsageError
from tests.unit.agent.fakes import FakeInfo


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("5%", Share(0.05)),
        ("0.5%", Share(0.005)),
        ("dport=5001", Share(0.5, "dport=5001")),
        ("20% dst=10.0.0.0/8 dport=80", Share(0.2, "dst=10.0.0.0/8 dport=80")),
    ],
)
def test_a_share_is_read(text: str, share: Share) -> None:
    assert Share.from_text(text) == share


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("", "canary.bad_share"),
        ("0%", "canary.bad_share"),
        ("100%", "canary.bad_share"),
        ("5% 6%", "canary.bad_share"),
        ("-5%", "canary.bad_share"),
        ("dport", "rule.syntax"),
        ("dport=x", "rule.bad_value"),
        ("5% port=1", "rule.unknown_key"),
    ],
)
def test_what_is_no_share_is_refused(text: str, slug: str) -> None:
    with pytest.raises(UsageError) as caught:
        Share.from_text(text)
    assert caught.value.slug == slug


def test_lots_give_the_share_and_leave_out_what_does_not_match() -> None:
    assignment = Assignment(Share(0.2, "dport=5001"), seed=1)
    drawn = [assignment.draw(FakeInfo(n)) for n in range(2000)]
    assert 0.17 < sum(map(bool, drawn)) / 2000 < 0.23
    assert assignment.draw(FakeInfo(1, dst_port=80)) is None
