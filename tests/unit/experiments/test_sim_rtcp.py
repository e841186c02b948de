from __future__ import annotations

from pathlib import Path

import pytest

from experiments.events import SetLink
from experiments.netlab.spec import Bernoulli, Buffer, Direction, TokenBucket
from experiments.papers.r_tcp.acks import connections, judged, together
from experiments.run import run
from experiments.traffic.spec import Http
from tests.unit.experiments.test_sim import PAYLOAD, one


@pytest.mark.parametrize("algorithm", ["r_tcp_cubic", "r_tcp_hyvar"])
def test_a_rate_limit_is_found_and_reported(algorithm: str) -> None:
    limited = Direction(
        rate_bytes_per_s=5e6, delay_us=10_000, token_bucket=TokenBucket(250_000, bucket_bytes=300_000)
    )
    result = run(one(algorithm, limited, traffic=Http((1_000_000,)), duration_s=4))
    first = result.table("rate_limits").iloc[0]
    assert (first["sender"], first["receiver"], first["flow"]) == ("sender", "receiver", "flow")
    assert first["state"] == "capped"
    assert first["rate_bytes_per_s"] == pytest.approx(250_000 * PAYLOAD, rel=0.06)
    assert 0 < first["t_s"] < 2


@pytest.mark.parametrize(("plain", "own"), [("cubic", "r_tcp_cubic"), ("bbr3", "r_tcp_bbr3")])
@pytest.mark.parametrize("link_mbit_per_s", [50, 200])
def test_a_rate_limit_is_found_with_one_object_of_256_kb_and_less_is_sent_again(
    plain: str, own: str, link_mbit_per_s: float
) -> None:
    # A cap from an untested estimate would keep flows far below the limit, where nothing is lost or found.
    limited = Direction(
        rate_bytes_per_s=link_mbit_per_s * 125e3,
        delay_us=5_000,
        buffer=Buffer(packets=2_000),
        token_bucket=TokenBucket(125_000, bucket_bytes=135_000),
    )
    results = [
        run(one(name, limited, traffic=Http((262_144,)), duration_s=4, seed=2)) for name in (plain, own)
    ]
    found = results[1].table("rate_limits").iloc[0]
    assert found["state"] == "capped"
    assert found["rate_bytes_per_s"] == pytest.approx(125_000 * PAYLOAD, rel=0.06)
    sent_again = [int(result.flows["retrans_pkts"].sum()) for result in results]
    assert sent_again[1] < sent_again[0]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_limit_that_is_gone_is_found_gone_where_random_loss_keeps_bbr3_slow(seed: int) -> None:
    # The rate stays near twice the limit, where the detector alone does not notice the end of the limit.
    limited = Direction(
        rate_bytes_per_s=5e6,
        delay_us=20_000,
        loss=Bernoulli(0.02),
        buffer=Buffer(packets=1_000),
        token_bucket=TokenBucket(250_000, bucket_bytes=733_000),
    )
    lift = SetLink(20.0, "link>", {"token_bucket": None})
    result = run(one("r_tcp_bbr3", limited, duration_s=40, seed=seed, events=(lift,)))
    states = result.table("rate_limits").set_index("t_s")["state"]
    assert "gone" not in set(states[:20])
    assert states.iloc[-1] == "gone"


LIMITED = Direction(
    rate_bytes_per_s=5e6,
    delay_us=18_000,
    buffer=Buffer(packets=1_000),
    token_bucket=TokenBucket(250_000, bucket_bytes=400_000),
)
"""40 Mbit/s, and a bucket of 400 kB that 2 Mbit/s fill."""


@pytest.mark.parametrize(
    ("delay_us", "mbit_per_s"), [(2_500, 1), (5_000, 0.5), (10_000, 0.25), (20_000, 0.25)]
)
def test_a_probe_ends_where_an_rtt_holds_less_than_a_packet(delay_us: int, mbit_per_s: float) -> None:
    # With nothing in flight at each ACK the flow seems app-limited, which must not restart the probe each
    # time: a probe adds a fifth, all of which is lost if the probe never ends.
    limited = Direction(
        rate_bytes_per_s=5e6,
        delay_us=delay_us,
        buffer=Buffer(packets=1_000),
        token_bucket=TokenBucket(mbit_per_s * 125e3, bucket_bytes=200_000),
    )
    result = run(one("rtcp/cubic", limited, duration_s=60))
    states = result.table("rate_limits")["state"]
    assert (states == "probing").sum() > 1
    samples = result.flow_samples
    late = samples[samples["t_s"] > 20]
    sent_again = late["retrans_pkts"].iloc[-1] - late["retrans_pkts"].iloc[0]
    assert sent_again < 0.05 * (late["delivered_pkts"].iloc[-1] - late["delivered_pkts"].iloc[0])


@pytest.mark.parametrize("control", ["cubic", "bbr"])
def test_the_kernels_under_r_tcp_find_a_rate_limit_and_send_less_again(control: str) -> None:
    transfer = Http((6_000_000,))
    without, under = (
        run(one(f"{by}/{control}", LIMITED, traffic=transfer, duration_s=28)) for by in ("kernel", "rtcp")
    )
    assert without.table("rate_limits").empty
    found = under.table("rate_limits")
    assert set(found["flow"]) == {"flow"}
    assert "gone" not in set(found["state"])
    last = found.iloc[-1]
    assert last["rate_bytes_per_s"] == pytest.approx(250_000 * PAYLOAD, rel=0.02)
    assert last["bucket_bytes"] == pytest.approx(400_000 * PAYLOAD, rel=0.15)
    retrans_pct = [float(result.flows["retrans_pct"].iloc[0]) for result in (without, under)]
    assert retrans_pct[1] < 0.9 * retrans_pct[0]


def test_recorded_acks_make_the_verdict_that_was_reported(tmp_path: Path) -> None:
    watched = {"record": True, "observe": True}
    scenario = one("rtcp/cubic", LIMITED, params=watched, traffic=Http((3_000_000,)), duration_s=20)
    result = run(scenario, tmp_path / "run")
    (acks,) = connections(result, "flow")
    finding = judged(acks, "r-tcp")
    last = result.table("rate_limits").iloc[-1]
    assert finding.limited
    assert finding.rate_bytes_per_s == pytest.approx(last["rate_bytes_per_s"], rel=0.01)


def test_recorded_acks_of_several_connections_are_taken_together(tmp_path: Path) -> None:
    at_once = Http((1_000_000,), connections=3)
    params = {"record": True, "observe": True}
    scenario = one("rtcp/cubic", LIMITED, params=params, traffic=at_once, duration_s=20)
    result = run(scenario, tmp_path / "run")
    several = list(connections(result, "flow"))
    assert len(several) == 3
    detector = together(several)
    reported = result.table("rate_limits").iloc[-1]
    assert detector.limited
    assert detector.rate_bytes_per_s == pytest.approx(reported["rate_bytes_per_s"], rel=0.01)
