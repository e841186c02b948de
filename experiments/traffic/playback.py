"""Parses the reports of the browser's page: downloads, and the playback of segments."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from experiments.traffic.media import PICTURE_MS, SEGMENT_S
from experiments.traffic.running import ObjectResult, Played
from experiments.traffic.viewer import Reported

_LINE: Final = re.compile(r'CONSOLE\S* "player (?P<json>\{.*\})", source: ')


def message(line: str) -> Mapping[str, Any] | None:
    """Return the page's message in a line of the browser's log; None if it contains none."""
    found = _LINE.search(line)
    return None if found is None else json.loads(found["json"])


def objects(reported: Reported, sizes_bytes: Mapping[str, int], clock_us: int) -> list[ObjectResult]:
    """Return the downloads."""
    whole = [one for one in reported if one["kind"] == "download" and _is_whole(one, sizes_bytes)]
    return [
        ObjectResult(
            connection=0,
            number=number,
            size_bytes=one["body_bytes"],
            start_us=clock_us + round(1e3 * one["start_ms"]),
            first_byte_s=(one["first_byte_ms"] - one["start_ms"]) / 1e3,
            completion_s=(one["end_ms"] - one["start_ms"]) / 1e3,
            new_connection=one["new_connection"],
        )
        for number, one in enumerate(whole)
    ]


def _is_whole(download: Mapping[str, Any], sizes_bytes: Mapping[str, int]) -> bool:
    size_bytes = sizes_bytes.get(download["path"])
    return size_bytes is None or download["body_bytes"] == size_bytes


def segments(reported: Reported, sizes_bytes: Mapping[str, int], end_ms: float) -> list[Played]:
    """Return the played segments, in order.

    A stall belongs to the segment in which, or at whose end, the video stopped. Waits shorter than a frame do
    not count.

    Args:
        reported: Messages of the page.
        sizes_bytes: As for `objects`.
        end_ms: Time at which the playback was stopped, on the page's clock [ms], unless it ended by itself.
    """
    bitrates = {
        int(path.stem) - 1: int(path.parent.name) / 8
        for one in reported
        if one["kind"] == "download" and one["path"] in sizes_bytes and _is_whole(one, sizes_bytes)
        for path in [PurePosixPath(one["path"])]
    }
    course = [one for one in reported if one["kind"] in ("playing", "waiting", "ended")]
    begun = next((i for i, one in enumerate(course) if one["kind"] == "playing"), None)
    if begun is None:
        return []
    opened_ms = next(one["at_ms"] for one in reported if one["kind"] == "opened")
    startup_s = (course[begun]["at_ms"] - opened_ms) / 1e3
    last = course[-1]
    position_s = last["position_s"] + ((end_ms - last["at_ms"]) / 1e3 if last["kind"] == "playing" else 0.0)
    course = [*course[begun:], {"at_ms": end_ms}]
    stalls = [
        (before["position_s"] // SEGMENT_S, waited_ms / 1e3)
        for before, after in itertools.pairwise(course)
        if before["kind"] == "waiting" and (waited_ms := after["at_ms"] - before["at_ms"]) >= PICTURE_MS
    ]
    return [
        Played(
            number=number,
            bitrate_bytes_per_s=bitrates[number],
            played_s=min(SEGMENT_S, position_s - number * SEGMENT_S),
            startup_s=None if number else startup_s,
            stalls=len(own_s := [stalled_s for where, stalled_s in stalls if where == number]),
            stalled_s=sum(own_s),
        )
        for number in sorted(bitrates)
        if position_s > number * SEGMENT_S
    ]
