"""The client that behaves like an app for short videos: what it loads when, and what it tells."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.traffic import swipes
from experiments.traffic.swipes import COVER, COVER_BYTES, Feed, Video, draw, piece_bytes

MIDDLE = 75_000


def feed(*lengths_s: float) -> Feed:
    return Feed([Video(length_s, length_s) for length_s in lengths_s])


def asked(one: Feed, now_s: float = 0.0) -> list[tuple[int, int]]:
    wanted = []
    while (found := one.ask(now_s)) is not None:
        wanted.append(found[:2])
    return wanted


def test_videos_follow_the_seed() -> None:
    first = draw(500, 10.0, seed=1)
    assert first == draw(500, 10.0, seed=1)
    assert first != draw(500, 10.0, seed=2)
    assert all(8 <= one.length_s <= 30 and one.watched_s <= one.length_s for one in first)
    assert 8.5 < sum(one.watched_s for one in first) / 500 < 10  # short ones cannot be watched longer


def test_the_current_video_comes_first_then_the_beginnings_of_the_next() -> None:
    one = feed(20.0, 3.0, 20.0, 20.0, 20.0)
    first = [(0, piece) for piece in range(4)]  # eight seconds ahead
    then = [(video, piece) for video in (1, 2, 3) for piece in (COVER, 0, 1)]
    assert asked(one) == first + then
    one.position_s = 4.5
    assert asked(one) == [(0, 4), (0, 5), (0, 6)]
    one.current, one.position_s = 1, 0.0
    assert asked(one) == [(4, COVER), (4, 0), (4, 1)]


def test_a_video_has_one_bitrate_and_covers_one_size() -> None:
    one = feed(4.0, 4.0)
    assert one.ask(0.0) == (0, 0, piece_bytes(MIDDLE))
    assert one.ask(0.0) == (0, 1, piece_bytes(MIDDLE))
    assert one.ask(0.0) == (1, COVER, COVER_BYTES)


@pytest.mark.parametrize(
    ("throughput_bytes_per_s", "bitrate_bytes_per_s"), [(1e6, 100_000), (100e3, 56_250), (20e3, 37_500)]
)
def test_the_bitrate_follows_the_throughput(throughput_bytes_per_s: float, bitrate_bytes_per_s: int) -> None:
    one = feed(4.0, 4.0)
    one.ask(10.0)
    one.ask(10.0)  # both at once: together they have the throughput
    for piece in (0, 1):
        size = piece_bytes(MIDDLE)
        one.came(0, piece, size, 10.0 + (1 + piece) * size / throughput_bytes_per_s)
    video, piece, _ = one.ask(100.0) or (0, 0, 0)  # the pause does not count
    assert (video, piece) == (1, COVER)
    assert one.videos[1].bitrate_bytes_per_s == bitrate_bytes_per_s


def test_only_what_has_no_gap_can_be_played() -> None:
    video = Video(7.0, 7.0, there={0, 1, 3, COVER})
    assert video.n_pieces == 4
    assert video.loaded_s == 4.0
    video.there.add(2)
    assert video.loaded_s == 8.0


class Objects(http.server.BaseHTTPRequestHandler):
    """Objects of the size that is their name, without a word."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = bytes(int(self.path[1:]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Objects) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def run(order: dict[str, object]) -> list[dict[str, object]]:
    command = [sys.executable, "-I", "-S", str(Path(swipes.__file__)), json.dumps(order)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_all_videos_are_watched_on_connections_that_stay_open(port: int) -> None:
    order = {"address": "127.0.0.1", "port": port, "videos": 3, "view_s": 0.1, "connections": 2, "seed": 4}
    told = run(order)
    assert told[-1] == {"kind": "ended"}
    played = [one for one in told if one["kind"] == "played"]
    assert [one["number"] for one in played] == [0, 1, 2]
    assert [one["played_s"] for one in played] == [one.watched_s for one in draw(3, 0.1, seed=4)]
    loaded = [one for one in told if one["kind"] == "download"]
    assert {one["connection"] for one in loaded} == {0, 1}
    assert sum(bool(one["new_connection"]) for one in loaded) == 2
    assert sum(one["size_bytes"] == COVER_BYTES for one in loaded) == 2


def test_a_server_that_is_not_there_is_told() -> None:
    order = {"address": "127.0.0.1", "port": 1, "videos": 1, "view_s": 1.0, "connections": 1, "seed": 1}
    command = [sys.executable, "-I", "-S", str(Path(swipes.__file__)), json.dumps(order)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout is not None
        assert json.loads(waiting.stdout.readline())["message"].startswith("ConnectionRefusedError: ")
        waiting.kill()
