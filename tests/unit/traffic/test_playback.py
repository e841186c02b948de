from __future__ import annotations

from typing import Any

import pytest

from experiments.traffic import playback

SIZES = {"/300000/1.m4s": 150_000, "/750000/2.m4s": 380_000, "/300000/2.m4s": 149_000}


def download(path: str, body_bytes: int, start_ms: float = 1000.0) -> dict[str, Any]:
    return {
        "kind": "download",
        "path": path,
        "body_bytes": body_bytes,
        "start_ms": start_ms,
        "first_byte_ms": start_ms + 40,
        "end_ms": start_ms + 250,
        "new_connection": path == "/dash.js",
    }


def at(kind: str, at_ms: float, position_s: float) -> dict[str, Any]:
    return {"kind": kind, "at_ms": at_ms, "position_s": position_s}


OPENED = {"kind": "opened", "at_ms": 1000.0}
LOADED = [
    download("/dash.js", 213_000),
    download("/300000/1.m4s", 150_000, 1500),
    download("/750000/2.m4s", 100_000, 2000),  # aborted
    download("/300000/2.m4s", 149_000, 2500),
]


def test_the_page_is_received_among_all_that_a_browser_says() -> None:
    line = '[1:1:1122/0152.4:INFO:CONSOLE:10] "player {"kind":"opened","at_ms":5.5}", source: http://a (10)\n'
    assert playback.message(line) == {"kind": "opened", "at_ms": 5.5}
    assert playback.message(line.replace("CONSOLE:10]", "CONSOLE(10)]")) == {"kind": "opened", "at_ms": 5.5}
    assert playback.message("[1:1:ERROR:dbus/bus.cc:405] Failed to connect to the bus\n") is None
    assert playback.message('[1:1:INFO:CONSOLE:2] "[39] Failed", source: http://a/dash.js (2)\n') is None


def test_downloads_that_were_given_up_do_not_count() -> None:
    found = playback.objects(LOADED, SIZES, clock_us=-900_000)
    assert [(one.number, one.size_bytes) for one in found] == [(0, 213_000), (1, 150_000), (2, 149_000)]
    assert [one.new_connection for one in found] == [True, False, False]
    assert found[1].start_us == 600_000
    assert (found[1].first_byte_s, found[1].completion_s) == pytest.approx((0.04, 0.25))


def test_segments_have_the_bitrate_that_came_whole_and_their_own_stalls() -> None:
    course = [
        at("waiting", 1100, 0.0),  # startup, not a stall
        at("playing", 1900, 0.0),
        at("waiting", 5800, 3.9),
        at("playing", 7300, 3.9),
        at("waiting", 8000, 4.6),
        at("playing", 8250, 4.6),
        at("waiting", 8300, 4.65),  # shorter than a frame
        at("playing", 8310, 4.65),
        at("ended", 11_650, 8.0),
    ]
    first, second = playback.segments([OPENED, *LOADED, *course], SIZES, end_ms=99_999)
    assert (first.number, first.bitrate_bytes_per_s, first.played_s) == (0, 37_500, 4)
    assert (first.startup_s, first.stalls, first.stalled_s) == (0.9, 1, 1.5)
    assert (second.number, second.bitrate_bytes_per_s, second.played_s) == (1, 37_500, 4)
    assert (second.startup_s, second.stalls, second.stalled_s) == (None, 1, 0.25)


def test_what_was_stopped_counts_as_far_as_it_was_played() -> None:
    playing = [OPENED, *LOADED, at("playing", 1900, 0.0)]
    (first,) = playback.segments(playing, SIZES, end_ms=4900)
    assert (first.played_s, first.stalls) == (3.0, 0)
    (first,) = playback.segments([*playing, at("waiting", 4400, 2.5)], SIZES, end_ms=4900)
    assert (first.played_s, first.stalls, first.stalled_s) == (2.5, 1, 0.5)


def test_nothing_was_played_where_nothing_began() -> None:
    assert playback.segments([OPENED, *LOADED, at("waiting", 1100, 0.0)], SIZES, end_ms=4900) == []
