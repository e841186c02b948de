"""Requests: accepted, refused, and documented."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ccplane.agent import messages as ask
from ccplane.agent.cgroups import cgroup_tree
from ccplane.agent.changes import Which
from ccplane.agent.control import answer_text, read_request
from ccplane.agent.messages import Envelope
from ccplane.agent.requests import Requests
from ccplane.agent.streams import Streams
from ccplane.base.errors import CcpError, FlowGone
from tests.unit.agent.live import Edited
from tests.unit.agent.test_control import SOURCE

REQUESTS: list[ask.Ask] = [
    ask.Status(),
    ask.Flows(),
    ask.FlowRequest(flow=1),
    ask.GetParams(algorithm="mine"),
    ask.GetParams(flow=2),
    ask.SetParams(values={"beta": 0.5}),
    ask.SetParams(values={"mine.rounds": "3"}, flow=1),
    ask.SetParams(values={"beta": 0.4}, rule="dport=1-9 dst=10.0.0.0/8"),
    ask.Switch(algorithm="mine", flow=1),
    ask.Switch(algorithm="mine", rule="sport=80"),
    ask.Subscribe(kind="int_summary"),
    ask.Events(limit=3),
    ask.Load(source="x = 1", name="x"),
    ask.Reload(algorithm="mine"),
    ask.InstallProgram(algorithm="mine", source="(def (x 0))"),
    ask.Load(source="x = 1", canary="5%", seconds=1.0),
    ask.Reload(algorithm="mine", canary="20% dport=80"),
    ask.EndCanary(algorithm="mine", widen=True),
    ask.Rollback(algorithm="mine"),
]


VALUES: list[Any] = [
    None, True, -1, 0, 1, 2, 3, 1 << 63, 1 << 80, 0.5, -0.0, 1e308, "", "mine", "beta", "x" * 300, "\0",
    "dport=80", "dst=::/0 -> mine", "cgroup=/", [], [1], {}, {"beta": 1}, {"beta": None}, {"": 1},
]  # fmt: skip


def mutated(rng: random.Random, seeds: list[bytes]) -> bytes:
    """A corrupted request: a value replaced, or bytes changed, removed, doubled, shuffled."""
    if rng.random() < 0.5:
        whole = json.loads(rng.choice(seeds))
        where = whole if rng.random() < 0.1 else whole["ask"]
        if where.get("values") and rng.random() < 0.5:
            where = where["values"]
        name = (
            rng.choice([*where, "flow", "algorithm", "rule", "extra"])
            if rng.random() < 0.3
            else rng.choice([*where])
        )
        where[name] = rng.choice(VALUES)
        return json.dumps(whole).encode()
    text = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(text) + 1)
        kind = rng.randrange(6)
        if kind == 0 and place < len(text):
            text[place] = rng.randrange(256)
        elif kind == 1:
            del text[place : place + rng.randint(1, 9)]
        elif kind == 2:
            text[place:place] = rng.choice(
                (b"-1", b"1e999", b"null", b'"', b"{}", b"\\u0000", b"99999999999")
            )
        elif kind == 3:
            text[place:place] = text[: rng.randint(1, 20)]
        elif kind == 4:
            other = rng.choice(seeds)
            text = text[:place] + other[rng.randrange(len(other)) :]
        else:
            text[place:place] = rng.randbytes(rng.randint(1, 6))
    return bytes(text)


COUNT = 200_000 if os.environ.get("HYPOTHESIS_PROFILE") == "slow" else 50_000


def test_mutated_requests_are_answered_and_the_loop_stays_whole(tmp_path: Path) -> None:
    """Execute every request that decodes, with a real loop and loader."""
    rng = random.Random(20_251_121)
    seeds = [msgspec.json.encode(Envelope(id=i, ask=what)) for i, what in enumerate(REQUESTS)]
    served = Edited(tmp_path / "mine.py", SOURCE, 1, 2)
    requests = Requests(served.agent_loop, served.loader, Streams(served.agent_loop))
    served.loader.start()
    done = refused = answered = 0
    waiting: list[Any] = []
    slugs: set[str] = set()
    for _ in range(COUNT):
        number, what = read_request(mutated(rng, seeds))
        assert number >= 0
        if isinstance(what, CcpError):
            assert what.slug == "control.bad_request"
            refused += 1
            continue
        again = msgspec.json.decode(msgspec.json.encode(Envelope(ask=what)), type=Envelope).ask
        assert msgspec.json.encode(again) == msgspec.json.encode(what)
        slow = isinstance(what, ask.Load | ask.Reload | ask.InstallProgram)
        if slow and done % 20:
            continue  # only a twentieth of these: a candidate takes a millisecond
        requests.take(what, waiting.append)
        done += 1
        while not waiting:
            served.agent_loop.turn(0)
        outcome = waiting.pop()
        answered += 1
        answer = json.loads(answer_text(1, outcome))
        assert set(answer) <= {"id", "ok", "error"}
        slugs |= {one["slug"] for one in answer.get("error", [])}
    served.loader.close()
    assert answered == done
    assert "control.failed" not in slugs
    assert len(slugs) > 8
    assert refused > COUNT / 4
    assert done > COUNT / 20
    assert set(served.agent_loop.flow_ids("mine")) == {1, 2}
    assert 0.1 <= served.instance(1).beta <= 0.9
    served.report(1, acked=1)
    assert served.datapath.written[-1].flow_id == 1
    with pytest.raises(FlowGone):
        served.agent_loop.changes.set_params({"beta": 0.5}, Which(99))


def test_the_tree_of_a_cgroup_is_read_before_the_agents_thread_has_the_request(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    edited = Edited(tmp_path / "mine.py", SOURCE, 1)
    requests = Requests(edited.agent_loop, edited.loader, Streams(edited.agent_loop))
    before = cgroup_tree.cache_info()
    outcomes: list[Any] = []
    requests.take(ask.SetParams(values={"beta": 0.5}, rule=f"cgroup={tmp_path}"), outcomes.append)
    asked = cgroup_tree.cache_info()
    edited.agent_loop.turn(0)
    after = cgroup_tree.cache_info()
    assert outcomes[0].exception() is None
    assert (asked.misses, after.misses) == (before.misses + 1, before.misses + 1)
    assert after.hits > before.hits
