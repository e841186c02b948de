from __future__ import annotations

import os
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from experiments import plots
from experiments.metrics import MetricError
from experiments.plots import files, style


def figure() -> Figure:
    with style.styled():
        plot = style.new_plot(2, 3)
        plot.subplots().plot([1, 2], [3, 4])
    return plot


@pytest.mark.parametrize(("kind", "head"), [("png", b"\x89PNG\r\n"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_saving_makes_the_directory_and_the_file(tmp_path: Path, kind: str, head: bytes) -> None:
    path = tmp_path / "new" / "deep" / f"plot.{kind}"
    assert plots.save(figure(), path) == path
    assert path.read_bytes().startswith(head)


@pytest.mark.parametrize("kind", files.FORMATS)
def test_the_same_figure_is_the_same_file(tmp_path: Path, kind: str) -> None:
    first, second = (plots.save(figure(), tmp_path / f"{i}.{kind}") for i in range(2))
    assert first.read_bytes() == second.read_bytes()


def test_an_unknown_format_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(MetricError) as caught:
        plots.save(figure(), tmp_path / "new" / "plot.gif")
    assert caught.value.slug == "plot.format"
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_saves_belongs_to_whom_the_directory_around_it_belongs(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 23456)
    path = plots.save(figure(), tmp_path / "out" / "plot.png")
    for one in (path, path.parent):
        assert (one.stat().st_uid, one.stat().st_gid) == (12345, 23456)
