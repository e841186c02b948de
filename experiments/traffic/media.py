"""Video playback and its content: Chromium, dash.js, and segments of a test video.

Only `make setup-video` installs these programs and files. The video is a test picture with noise, so that it
really has its nominal bitrates. The video is encoded once, with the bitrates of Mao et al. (2017), in
segments of four seconds.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from experiments.netlab.errors import no_video

CACHE: Final = Path(__file__).parents[2] / ".cache" / "video"
"""Directory of the files that `make setup-video` creates."""

BITRATES_KBIT_PER_S: Final = (300, 750, 1200, 1850, 2850, 4300)
SEGMENT_S: Final = 4
SEGMENTS: Final = 12

BROWSER: Final = "chromium"
MANIFEST: Final = "manifest.mpd"
_ENCODER: Final = "ffmpeg"
_DASH_JS: Final = "dash.js"
_SEGMENTS: Final = "segments"
_PICTURES_PER_S: Final = 25
PICTURE_MS: Final = 1000 / _PICTURES_PER_S
"""Duration of a frame [ms]."""

_PICTURE: Final = f"testsrc2=size=480x270:rate={_PICTURES_PER_S},noise=alls=60:allf=t:all_seed=1"
_DURATION: Final = re.compile(r'mediaPresentationDuration="[^"]*"')


def require(where: str, cache: Path = CACHE) -> None:
    """Check that everything is installed.

    Raises:
        LabError: `lab.no_video`.
    """
    missing = [] if shutil.which(BROWSER) else [BROWSER]
    missing += [str(path) for name in (_DASH_JS, _SEGMENTS) if not (path := cache / name).exists()]
    if missing:
        raise no_video(missing, where)


def files(n_segments: int, cache: Path = CACHE) -> dict[str, Path | str]:
    """Return the content of the video's web server: name -> file, folder or text."""
    page = Path(__file__).parent / "player"
    segments = cache / _SEGMENTS
    served: dict[str, Path | str] = {one.name: one for one in page.iterdir()}
    served |= {str(1000 * one): segments / str(1000 * one) for one in BITRATES_KBIT_PER_S}
    shorter = f'mediaPresentationDuration="PT{n_segments * SEGMENT_S}S"'
    served[MANIFEST] = _DURATION.sub(shorter, (segments / MANIFEST).read_text())
    return served | {_DASH_JS: cache / _DASH_JS}


def sizes_bytes(cache: Path = CACHE) -> dict[str, int]:
    """Return the size of each segment by its path on the server."""
    segments = cache / _SEGMENTS
    return {f"/{one.relative_to(segments)}": one.stat().st_size for one in segments.glob("*/*.m4s")}


def make(cache: Path = CACHE) -> None:
    """Encode the test video, unless it exists; takes half a minute."""
    if (cache / _SEGMENTS).exists():
        return
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as name:
        made = Path(name) / _SEGMENTS
        for bitrate in BITRATES_KBIT_PER_S:
            (made / str(1000 * bitrate)).mkdir(parents=True)
        subprocess.run(_encoding(), cwd=made, check=True)
        made.rename(cache / _SEGMENTS)


def _encoding() -> list[str]:
    rates = []
    for i, bitrate in enumerate(BITRATES_KBIT_PER_S):
        rate = f"{bitrate}k"
        rates += ["-map", "0:v", f"-b:v:{i}", rate, f"-maxrate:v:{i}", rate, f"-bufsize:v:{i}", rate]
    pictures = str(SEGMENT_S * _PICTURES_PER_S)
    return [
        *(_ENCODER, "-hide_banner", "-nostdin", "-loglevel", "error"),
        *("-f", "lavfi", "-i", _PICTURE, "-t", str(SEGMENTS * SEGMENT_S)),
        *rates,
        *("-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p"),
        *(
            "-g",
            pictures,
            "-keyint_min",
            pictures,
            "-sc_threshold",
            "0",
        ),  # segments start with a key frame
        *("-f", "dash", "-adaptation_sets", "id=0,streams=v", "-seg_duration", str(SEGMENT_S)),
        *("-use_template", "1", "-use_timeline", "0"),
        *("-init_seg_name", "$Bandwidth$/init.mp4", "-media_seg_name", "$Bandwidth$/$Number$.m4s"),
        MANIFEST,
    ]


if __name__ == "__main__":
    make()
