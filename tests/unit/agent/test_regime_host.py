"""The regime of a host and its events, with fake settings."""

from __future__ import annotations

import pytest

from ccplane.agent.features.regime import congestion
from ccplane.agent.features.regime.actuator import FAIL_SAFE, PUT_BACK, REFUSED, SWITCHED, RegimeEvent
from ccplane.agent.features.regime.errors import SwitchError
from ccplane.agent.features.regime.host import NOTHING_DECIDED, HostActuator
from ccplane.agent.features.regime.rules import MAX_RATE_BYTES_PER_S
from ccplane.agent.features.regime.settings import Before
from telemetry.regime.detector import SHARED, SINGLE_OWNER, Regime
from telemetry.regime.follow import Path, Standing

NEAR, FAR = Path("10.0.0.1", "10.0.0.2"), Path("10.0.0.1", "192.0.2.9")
FOREIGN = Path("10.0.0.7", "10.0.0.2")
EITHER_WAY = Path("10.0.0.1", None)
ETH0, ETH1 = 1, 2


class Settings:
    """A host with two interfaces, the first of which can be paced."""

    def __init__(self) -> None:
        self.before = Before(congestion="bbr", allowed=(), ecn="2")
        self.congestion = "bbr"
        self.limits: dict[int, int | None] = {}
        self.asked: list[int] = []
        self.state = "new"

    def __enter__(self) -> Settings:
        self.state = "open"
        return self

    def __exit__(self) -> None:
        self.state = "put back"

    def leave(self) -> None:
        self.state = "left"

    def choose(self, congestion: str) -> str:
        before, self.congestion = self.congestion, congestion
        return before

    def is_here(self, address: str) -> bool:
        return address == NEAR.peer

    def interface_to(self, address: str) -> int | None:
        return {NEAR.address: ETH0, FAR.address: ETH1}.get(address)

    def pace(self, index: int) -> str:
        self.asked.append(index)
        return "" if index == ETH0 else "somebody chose htb for eth1"

    def limit(self, index: int, rate_bytes_per_s: int | None) -> None:
        self.limits[index] = rate_bytes_per_s


@pytest.fixture
def settings() -> Settings:
    return Settings()


@pytest.fixture
def host(settings: Settings) -> HostActuator:
    return HostActuator("reno", "cubic", None, 5_000_000, settings=settings)


def standing(regime: Regime, lost: str = "") -> Standing:
    return Standing(regime=regime, lost=lost, reason=f"because of {lost or 'nothing'}")


SINGLE, BUSY, LOST = standing(SINGLE_OWNER), standing(SHARED), standing(SHARED, "stale")


def reported(events: list[RegimeEvent]) -> list[tuple[str, ...]]:
    return [
        tuple(text for text in (one.kind, one.before, one.after, one.wanted, one.reason, one.why) if text)
        for one in events
    ]


def test_one_shared_path_makes_the_host_shared(host: HostActuator, settings: Settings) -> None:
    assert reported(host.apply({})) == [(SWITCHED, "bbr", "cubic", NOTHING_DECIDED)]
    assert reported(host.apply({NEAR: SINGLE})) == [
        (SWITCHED, "cubic", "reno", "all 1 paths are SINGLE_OWNER")
    ]
    assert settings.congestion == "reno"
    assert settings.limits == {ETH0: None}
    assert reported(host.apply({NEAR: SINGLE, EITHER_WAY: SINGLE})) == []
    assert reported(host.apply({NEAR: SINGLE, EITHER_WAY: BUSY})) == [
        (SWITCHED, "reno", "cubic", "path to all destinations: because of nothing")
    ]
    assert settings.congestion == "cubic"
    assert settings.limits == {ETH0: 5_000_000}


def test_paths_of_other_hosts_do_not_count(host: HostActuator, settings: Settings) -> None:
    host.apply({FOREIGN: SINGLE})
    assert settings.congestion == "cubic"
    host.apply({FOREIGN: BUSY, NEAR: SINGLE})
    assert settings.congestion == "reno"
    assert settings.asked == [ETH0]


def test_what_cannot_be_paced_is_reported_once_and_the_rest_goes_on(
    host: HostActuator, settings: Settings
) -> None:
    events = reported(host.apply({FAR: SINGLE}))
    assert events == [
        (REFUSED, "fq", "somebody chose htb for eth1"),
        (SWITCHED, "bbr", "reno", "all 1 paths are SINGLE_OWNER"),
    ]
    host.apply({})
    assert host.apply({FAR: BUSY}) == []
    assert settings.asked == [ETH1]
    assert settings.limits == {}


def test_an_interface_that_comes_later_gets_the_rate_that_holds(
    host: HostActuator, settings: Settings
) -> None:
    host.apply({FAR: BUSY})
    assert host.apply({FAR: BUSY, NEAR: BUSY}) == []
    assert settings.limits == {ETH0: 5_000_000}


def test_a_lost_decision_is_reported_once_for_each_loss(host: HostActuator) -> None:
    host.apply({NEAR: SINGLE})
    assert reported(host.apply({NEAR: LOST})) == [
        (FAIL_SAFE, "path to 10.0.0.2: because of stale"),
        (SWITCHED, "reno", "cubic", "path to 10.0.0.2: because of stale"),
    ]
    assert host.apply({NEAR: LOST}) == []
    host.apply({NEAR: SINGLE})
    assert [one.kind for one in host.apply({NEAR: LOST})] == [FAIL_SAFE, SWITCHED]


def test_it_ends_with_what_was_before_or_leaves_it(host: HostActuator, settings: Settings) -> None:
    host.apply({NEAR: SINGLE})
    assert reported(host.close(leave=False)) == [(SWITCHED, "reno", "bbr", PUT_BACK)]
    assert settings.state == "put back"
    other = Settings()
    assert HostActuator("reno", "cubic", settings=other).close(leave=True) == []
    assert other.state == "left"


def test_before_it_begins_names_and_rates_are_checked(settings: Settings) -> None:
    for arguments, slug, says in (
        (("nosuch", "cubic"), "switch.no_congestion_control", "`ccp.nosuch` is not registered"),
        (("reno", "cubic", 0), "switch.bad_rate", "--single-rate"),
        (("reno", "cubic", None, MAX_RATE_BYTES_PER_S + 1), "switch.bad_rate", "--shared-rate"),
    ):
        with pytest.raises(SwitchError) as caught:
            HostActuator(*arguments, settings=settings)
        assert caught.value.slug == slug
        assert says in str(caught.value)
    assert settings.state == "new"


def test_what_the_kernel_lacks_ccplane_stands_in_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert congestion.stand_in("reno") == "reno"
    monkeypatch.setattr(congestion, "_is_there", lambda name: name == "ccp.dctcp")
    assert congestion.stand_in("dctcp") == "ccp.dctcp"
    with pytest.raises(SwitchError) as caught:
        congestion.stand_in("cubic")
    assert caught.value.slug == "switch.no_congestion_control"
    assert "`modprobe tcp_cubic`" in caught.value.fix
