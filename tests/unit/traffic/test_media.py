from __future__ import annotations

from pathlib import Path

import pytest

from experiments.netlab.errors import LabError
from experiments.traffic import media


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    for bitrate in media.BITRATES_KBIT_PER_S:
        folder = tmp_path / "segments" / str(1000 * bitrate)
        folder.mkdir(parents=True)
        (folder / "init.mp4").write_bytes(bytes(800))
        (folder / "1.m4s").write_bytes(bytes(bitrate))
    manifest = '<MPD type="static" mediaPresentationDuration="PT48.0S" minBufferTime="PT8.0S">'
    (tmp_path / "segments" / "manifest.mpd").write_text(manifest)
    (tmp_path / "dash.js").write_text("")
    return tmp_path


def test_what_is_missing_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError) as caught:
        media.require("host receiver: chromium", tmp_path)
    assert caught.value.slug == "lab.no_video"
    assert caught.value.why == f"missing: chromium, {tmp_path / 'dash.js'}, {tmp_path / 'segments'}"
    assert caught.value.fix == "make setup-video"


def test_nothing_is_missing_where_everything_is(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = cache / "chromium"
    browser.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(cache))
    media.require("host receiver: chromium", cache)


def test_a_page_its_program_and_all_bitrates_are_served(cache: Path) -> None:
    served = media.files(3, cache)
    bitrates = {str(1000 * bitrate) for bitrate in media.BITRATES_KBIT_PER_S}
    assert set(served) == {"player.html", "player.js", "dash.js", "manifest.mpd", *bitrates}
    assert all(one.exists() for one in served.values() if isinstance(one, Path))
    assert 'mediaPresentationDuration="PT12S" minBufferTime' in str(served["manifest.mpd"])


def test_segments_have_sizes_by_their_path(cache: Path) -> None:
    sizes = media.sizes_bytes(cache)
    assert len(sizes) == len(media.BITRATES_KBIT_PER_S)
    assert sizes["/750000/1.m4s"] == 750
