from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from telemetry.regime.detector import SHARED, SINGLE_OWNER
from telemetry.regime.follow import AWAY, MAX_SENDERS, OFFLINE, STALE, Follower, Path, Standing
from telemetry.schema import AgentStatus, Body, FlowId, RegimeDecision, Sample, kind_of

US = 1_000_000
PEER, ADDRESS = "10.0.0.1", "10.1.0.1"
PATH = Path(PEER, ADDRESS)


def sample(body: Body, at_us: int = 0, **fields: Any) -> Sample:
    return Sample(
        kind=kind_of(body), body=body, **{"sender": "rx", "topic": "t", "received_us": at_us, **fields}
    )


def decision(regime: Any = SINGLE_OWNER, at_us: int = 0, ttl_us: int | None = None, **fields: Any) -> Sample:
    about = {"peer": fields.pop("peer", PEER), "address": fields.pop("address", ADDRESS)}
    body = RegimeDecision(regime=regime, reason=f"said at {at_us}", flow=fields.pop("flow", None), **about)
    expires_us = None if ttl_us is None else at_us + ttl_us
    return sample(body, at_us, expires_us=expires_us, **fields)


def status(word: Any, at_us: int = 0, **fields: Any) -> Sample:
    return sample(AgentStatus(status=word, role="receiver"), at_us, **fields)


def following(*samples: Sample, **options: Any) -> Follower:
    follower = Follower(**options)
    for one in samples:
        follower.take(one)
    return follower


def test_a_decision_holds_for_its_path_with_its_reason() -> None:
    follower = following(decision(peer="::ffff:10.0.0.1"), decision(SHARED, address=None))
    assert follower.regimes(US) == {
        PATH: Standing(regime=SINGLE_OWNER, reason="said at 0"),
        Path(PEER, None): Standing(regime=SHARED, reason="said at 0"),
    }


def test_what_is_about_no_path_is_ignored() -> None:
    one_flow = FlowId(src=PEER, src_port=1, dst=ADDRESS, dst_port=2)
    host = sample(RegimeDecision(regime=SINGLE_OWNER, host="sender"))
    assert following(decision(flow=one_flow), host).regimes(0) == {}


def test_an_expired_decision_counts_for_the_grace_and_no_longer() -> None:
    follower = following(decision(ttl_us=2 * US), stale_ms=500)
    assert follower.regimes(2 * US + 499_999)[PATH].regime == SINGLE_OWNER
    assert follower.regimes(2 * US + 500_000)[PATH] == Standing(
        regime=SHARED, lost=STALE, reason="the last decision has expired"
    )
    follower.take(decision(at_us=4 * US, ttl_us=2 * US))
    assert follower.regimes(4 * US)[PATH].regime == SINGLE_OWNER


def test_a_sender_that_is_offline_is_believed_for_the_grace() -> None:
    follower = following(decision(), status("offline", 3 * US), status("offline", 4 * US), stale_ms=1000)
    assert follower.regimes(4 * US - 1)[PATH].regime == SINGLE_OWNER
    assert follower.regimes(4 * US)[PATH] == Standing(regime=SHARED, lost=OFFLINE, reason="rx is offline")
    follower.take(status("online", 5 * US))
    assert follower.regimes(5 * US)[PATH].regime == SINGLE_OWNER


def test_whoever_decides_is_not_offline_but_what_the_broker_kept_proves_nothing() -> None:
    gone = status("offline", retained=True)
    kept = following(gone, decision(retained=True), stale_ms=1000)
    assert kept.regimes(US)[PATH].lost == OFFLINE
    fresh = following(gone, decision(), stale_ms=1000)
    assert fresh.regimes(US)[PATH].lost == ""


def test_without_the_broker_decisions_count_for_the_grace() -> None:
    follower = following(decision(), stale_ms=1000)
    follower.set_connected(False, US)
    follower.set_connected(False, int(1.5 * US))
    assert follower.regimes(2 * US - 1)[PATH].lost == ""
    assert follower.regimes(2 * US)[PATH] == Standing(
        regime=SHARED, lost=AWAY, reason="the broker is disconnected"
    )
    follower.set_connected(True, 3 * US)
    assert follower.regimes(3 * US)[PATH].regime == SINGLE_OWNER


def test_the_newest_decision_holds_whoever_made_it() -> None:
    old = decision(SHARED, at_us=6 * US, age_at_receipt_us=5 * US, retained=True, sender="before")
    assert following(decision(at_us=2 * US), old).regimes(7 * US)[PATH].regime == SINGLE_OWNER
    assert following(decision(), old).regimes(7 * US)[PATH].regime == SHARED


def test_the_path_received_of_longest_ago_makes_room() -> None:
    addresses = ["10.1.0.1", "10.1.0.2", "10.1.0.1", "10.1.0.3"]
    follower = following(*(decision(address=one) for one in addresses), max_paths=2)
    assert [path.address for path in follower.regimes(0)] == ["10.1.0.1", "10.1.0.3"]


def test_senders_that_come_and_go_fill_no_memory() -> None:
    follower = following(*(status("offline", sender=f"s{number}") for number in range(MAX_SENDERS + 1)))
    follower.take(decision(sender="s0", retained=True))
    follower.take(decision(sender=f"s{MAX_SENDERS}", retained=True, address="10.1.0.2"))
    assert [one.lost for one in follower.regimes(10 * US).values()] == ["", OFFLINE]


STEPS = st.lists(
    st.tuples(
        st.integers(0, 3000),
        st.sampled_from(["single", "shared", "online", "offline", "connected", "away"]),
        st.integers(1, 2000),
    )
)


@given(STEPS, st.integers(0, 2000))
def test_no_path_is_single_owner_without_a_decision_that_counts(
    steps: list[tuple[int, str, int]], stale_ms: int
) -> None:
    """SINGLE_OWNER requires such a decision that expired no longer ago than the grace period."""
    follower, now_us = Follower(stale_ms), 0
    last: tuple[str, int] | None = None
    for passed_ms, what, ttl_ms in steps:
        now_us += passed_ms * 1000
        if what in ("single", "shared"):
            regime = SINGLE_OWNER if what == "single" else SHARED
            follower.take(decision(regime, now_us, ttl_ms * 1000))
            last = (regime, now_us + ttl_ms * 1000)
        elif what in ("online", "offline"):
            follower.take(status(what, now_us))
        else:
            follower.set_connected(what == "connected", now_us)
        standing = follower.regimes(now_us).get(PATH)
        assert (standing is None) == (last is None)
        if standing is not None and last is not None and standing.regime == SINGLE_OWNER:
            assert last[0] == SINGLE_OWNER
            assert now_us < last[1] + stale_ms * 1000
