"""A client that behaves like an app for short videos: it plays one, loads the next ones ahead, and swipes.

Nobody watches, and nothing is decoded: pieces of the right size are downloaded, and a clock runs over those
that are there. Several connections stay open and load at the same time: the current video some way ahead,
then cover and first seconds of those that come next. A video's bitrate is chosen when its first piece is
asked for, by how fast the last downloads were. Lengths, and how long each video is watched, are drawn from a
seed.

Run by its path, in the hosts, by the Python that runs everything else; so this file imports the standard
library only. It prints what happens, a line of JSON each.
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

BITRATES_BYTES_PER_S = (37_500, 56_250, 75_000, 100_000)
"""300, 450, 600 and 800 kbit/s."""
PIECE_S = 2.0
COVER_BYTES = 60_000
LENGTHS_S = (8.0, 30.0)
WATCHED = (0.5, 1.5)
"""How long videos are watched, as parts of the mean that is asked for: evenly between these."""
AHEAD_S = 8.0
"""How far ahead of what is watched the current video is loaded [s]."""
NEXT_VIDEOS = 3
NEXT_PIECES = 2
"""How many of the next videos are begun to load, and how many pieces of each, besides the cover."""
RATE_SHARE = 0.7
"""Most of the throughput that a video's bitrate may take."""
SAMPLES = 8
"""How many downloads the throughput is that of."""
LOOK_S = 0.1

COVER = -1
"""Number of the piece that is a video's cover."""


def piece_bytes(bitrate_bytes_per_s: float) -> int:
    """Return the size of a piece [bytes]."""
    return round(bitrate_bytes_per_s * PIECE_S)


@dataclass
class Video:
    """One video.

    Attributes:
        length_s: Its length [s].
        watched_s: How much of it is watched [s].
        bitrate_bytes_per_s: Chosen with its first piece.
        asked: Pieces that were asked for.
        there: Those that came.
    """

    length_s: float
    watched_s: float
    bitrate_bytes_per_s: float = 0.0
    asked: set[int] = field(default_factory=set)
    there: set[int] = field(default_factory=set)

    @property
    def n_pieces(self) -> int:
        """Number of its pieces, without the cover."""
        return -int(-self.length_s // PIECE_S)

    @property
    def loaded_s(self) -> float:
        """How much of it can be played without a gap [s]."""
        return next(i for i in range(self.n_pieces + 1) if i not in self.there) * PIECE_S


def draw(n_videos: int, view_s: float, seed: int) -> list[Video]:
    """Return videos with lengths and watched times from a seed."""
    rng = random.Random(seed)
    videos = []
    for _ in range(n_videos):
        length_s = rng.uniform(*LENGTHS_S)
        videos.append(Video(length_s, min(length_s, view_s * rng.uniform(*WATCHED))))
    return videos


class Feed:
    """What is loaded next, and at which bitrate."""

    def __init__(self, videos: list[Video]) -> None:
        """Begin with the first of the videos."""
        self.videos = videos
        self.current = 0
        self.position_s = 0.0
        self._under_way = 0
        self._since_s = 0.0
        self._loaded: deque[tuple[int, float]] = deque(maxlen=SAMPLES)

    def ask(self, now_s: float) -> tuple[int, int, int] | None:
        """Return video, piece and size [bytes] of what is to be loaded now; None: nothing."""
        wanted = self._wanted()
        if wanted is None:
            return None
        number, piece = wanted
        video = self.videos[number]
        if not video.bitrate_bytes_per_s:
            video.bitrate_bytes_per_s = self._bitrate()
        video.asked.add(piece)
        if not self._under_way:
            self._since_s = now_s
        self._under_way += 1
        return number, piece, COVER_BYTES if piece == COVER else piece_bytes(video.bitrate_bytes_per_s)

    def came(self, number: int, piece: int, size_bytes: int, now_s: float) -> None:
        """Note that something was loaded."""
        self.videos[number].there.add(piece)
        self._under_way -= 1
        self._loaded.append((size_bytes, now_s - self._since_s))
        self._since_s = now_s

    def _wanted(self) -> tuple[int, int] | None:
        current = self.videos[self.current]
        for piece in range(current.n_pieces):
            if piece * PIECE_S >= self.position_s + AHEAD_S:
                break
            if piece not in current.asked:
                return self.current, piece
        for number in range(self.current + 1, min(self.current + 1 + NEXT_VIDEOS, len(self.videos))):
            for piece in (COVER, *range(NEXT_PIECES)):
                if piece not in self.videos[number].asked:
                    return number, piece
        return None

    def _bitrate(self) -> float:
        if not self._loaded:
            return BITRATES_BYTES_PER_S[len(BITRATES_BYTES_PER_S) // 2]
        rate_bytes_per_s = sum(size for size, _ in self._loaded) / sum(took for _, took in self._loaded)
        fitting = [one for one in BITRATES_BYTES_PER_S if one <= RATE_SHARE * rate_bytes_per_s]
        return max(fitting, default=BITRATES_BYTES_PER_S[0])


class App:
    """The connections, and who watches."""

    def __init__(self, feed: Feed, address: str, port: int, n_connections: int) -> None:
        """Open no connection yet."""
        self._feed = feed
        self._changed = threading.Condition()
        self._server = (address, port)
        self._n_connections = n_connections

    def run(self) -> None:
        """Watch all videos."""
        for number in range(self._n_connections):
            threading.Thread(target=self._load, args=(number,), daemon=True).start()
        with self._changed:
            for number in range(len(self._feed.videos)):
                self._watch(number)
        tell(kind="ended")

    def _watch(self, number: int) -> None:
        feed, video = self._feed, self._feed.videos[number]
        feed.current, feed.position_s = number, 0.0
        self._changed.notify_all()
        startup_s = self._wait_for(video)
        stalls, stalled_s = 0, 0.0
        while feed.position_s < video.watched_s:
            if video.loaded_s <= feed.position_s:
                stalls += 1
                stalled_s += self._wait_for(video)
                continue
            before_s = time.monotonic()
            until_s = min(video.loaded_s, video.watched_s, feed.position_s + LOOK_S)
            self._changed.wait(until_s - feed.position_s)
            feed.position_s = min(until_s, feed.position_s + time.monotonic() - before_s)
        tell(
            kind="played",
            number=number,
            bitrate_bytes_per_s=video.bitrate_bytes_per_s,
            played_s=video.watched_s,
            startup_s=startup_s,
            stalls=stalls,
            stalled_s=stalled_s,
        )

    def _wait_for(self, video: Video) -> float:
        """Wait until more of a video is there than is watched; return for how long [s]."""
        before_s = time.monotonic()
        while video.loaded_s <= self._feed.position_s:
            self._changed.wait()
        return time.monotonic() - before_s

    def _load(self, connection: int) -> None:
        """Load what is to be loaded, on one connection."""
        try:
            http_connection = http.client.HTTPConnection(*self._server)
            done = 0
            while True:
                with self._changed:
                    while (wanted := self._feed.ask(time.monotonic())) is None:
                        self._changed.wait(LOOK_S)
                video, piece, size_bytes = wanted
                new, start_s = http_connection.sock is None, time.monotonic()
                http_connection.request("GET", f"/{size_bytes}")
                answer = http_connection.getresponse()
                first_byte_s = time.monotonic() - start_s
                if answer.status != http.client.OK or len(answer.read()) != size_bytes:
                    raise http.client.HTTPException(f"the server answered {answer.status} {answer.reason}")
                end_s = time.monotonic()
                with self._changed:
                    self._feed.came(video, piece, size_bytes, end_s)
                    self._changed.notify_all()
                tell(
                    kind="download",
                    connection=connection,
                    number=done,
                    size_bytes=size_bytes,
                    start_us=round(1e6 * start_s),
                    first_byte_s=first_byte_s,
                    completion_s=end_s - start_s,
                    new_connection=new,
                )
                done += 1
        except (OSError, http.client.HTTPException) as error:
            tell(kind="error", message=f"{type(error).__name__}: {error}")


_telling = threading.Lock()


def tell(**message: Any) -> None:
    """Print a message."""
    with _telling:
        print(json.dumps(message), flush=True)


def main(order: dict[str, Any]) -> None:
    """Do what an order says."""
    feed = Feed(draw(order["videos"], order["view_s"], order["seed"]))
    App(feed, order["address"], order["port"], order["connections"]).run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
