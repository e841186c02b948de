"""Random and mutated payloads: each is decoded or refused, and decoded messages are valid.

Validity is checked here in plain Python, not with the decoding classes. 1,000,000 payloads take about 20 s.
"""

from __future__ import annotations

import ipaddress
import math
import os
import random
import re
from collections import Counter
from typing import Any

import msgspec
import pytest

from telemetry.codec import decode, encode
from telemetry.errors import MESSAGE_SLUGS, InvalidMessageError
from telemetry.schema import Envelope
from tests.unit.telemetry.test_codec import BODIES, WRONG, envelope

PAYLOADS = 1_000_000 if os.environ.get("HYPOTHESIS_PROFILE") == "slow" else 200_000
SEEDS = 4
SPLICES = [
    b"null",
    b"-1",
    b"1e999",
    b"NaN",
    b'"\\ud800"',
    b"9" * 40,
    b"[" * 600,
    b"{}",
    b"\xff\xfe",
    b"true",
    b'""',
    b"\x90",
    b"\xc0",
    b"\xcb" + b"\x7f\xf8" + b"\0" * 6,
    b"\xcf" + b"\xff" * 8,
    b"\x91" * 600,
    b"\xd9\x02\xff\xff",
]


def seeds() -> list[bytes]:
    valid = [envelope(body, ttl_ms=1000) for body in BODIES]
    wrong = [msgspec.json.decode(encode(valid[0])) | change for change in WRONG]
    return [
        *(encode(one, form) for one in valid for form in ("json", "msgpack")),
        *(write(one) for one in wrong for write in (msgspec.json.encode, msgspec.msgpack.encode)),
    ]


def mutate(payload: bytes, chance: random.Random) -> bytes:
    data = bytearray(payload)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 if place < len(data):
                data[place] = chance.randrange(256)
            case 1 if place < len(data):
                data[place] ^= 1 << chance.randrange(8)
            case 2:
                del data[place : place + chance.randrange(1, 9)]
            case 3:
                data[place:place] = chance.choice(SPLICES)
            case 4:
                end = chance.randrange(len(data) + 1)
                data[place:place] = data[min(place, end) : max(place, end)][:64]
            case _:
                # A digit for a digit: keeps the form, changes the value.
                digits = [n for n, byte in enumerate(data) if 48 <= byte < 58]
                if digits:
                    data[chance.choice(digits)] = chance.choice(b"0123456789-.eE")
    return bytes(data)


def payload(sources: list[bytes], chance: random.Random) -> bytes:
    if chance.random() < 0.1:
        return chance.randbytes(chance.randrange(200))
    return mutate(chance.choice(sources), chance)


def check_number(value: Any, low: float, high: float, kind: type | tuple[type, ...] = int) -> None:
    if value is not None:
        assert isinstance(value, kind)
        assert not isinstance(value, bool)
        assert math.isfinite(value)
        assert low <= value <= high


def check_address(value: Any) -> None:
    if value is not None:
        ipaddress.ip_address(value)


def check_flow(flow: Any) -> None:
    if flow is None:
        return
    check_address(flow["src"])
    check_address(flow["dst"])
    for port in ("src_port", "dst_port"):
        check_number(flow[port], 0, 65535)
    assert flow.get("protocol", "tcp") in {"tcp", "udp"}


def check_valid(message: Envelope) -> str:
    plain = msgspec.to_builtins(message)
    assert plain["version"] == 1
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", plain["sender"])
    for name in ("t_mono_us", "t_wall_us"):
        check_number(plain[name], 0, 2**53 - 1)
    check_number(plain.get("ttl_ms"), 1, 7 * 86_400_000)
    body = plain["body"]
    check_flow(body.get("flow"))
    check_address(body.get("peer"))
    check_address(body.get("address"))
    for name, value in body.items():
        if name.endswith(("_us", "_pkts", "_bytes", "_per_s", "_marks", "_ms", "_samples")):
            check_number(value, 0, 2**53 - 1)
        elif name in {"density", "loss_ratio"}:
            check_number(value, 0, 1, (int, float))
    for hop in body.get("hops", ()):
        for name, value in hop.items():
            wireless = name in {"rssi_dbm", "snr_db"}
            check_number(value, -1000 if wireless else 0, 2**53, (int, float) if wireless else int)
    for value in [*body.get("detail", {}).values(), body.get("value")]:
        if isinstance(value, float):
            assert math.isfinite(value)
        else:
            assert value is None or isinstance(value, int | str)
    assert encode(message)
    return str(body["kind"])


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.timeout(600)
def test_no_payload_breaks_the_reader_and_none_that_is_invalid_is_accepted(seed: int) -> None:
    chance = random.Random(seed)
    sources = seeds()
    outcomes: Counter[str] = Counter()
    for _ in range(PAYLOADS // SEEDS):
        data = payload(sources, chance)
        try:
            message = decode(data)
        except InvalidMessageError as error:
            outcomes[error.slug] += 1
        else:
            outcomes[check_valid(message)] += 1
    assert sum(outcomes.values()) == PAYLOADS // SEEDS
    # All kinds of messages and all reasons for refusal occurred (except length, which has its own test).
    assert set(MESSAGE_SLUGS) - set(outcomes) == {"message.too_long", "message.wrong_topic"}
    assert {body.__struct_config__.tag for body in BODIES} <= set(outcomes)
