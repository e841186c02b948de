"""The panel in a real JupyterLab and browser, over a simulated run: it draws, sets, checks and loads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ccplane.agent.panel import front
from tests.notebooks.browser import PANEL, Server, open_and_run, page, why_not, write_notebook

if TYPE_CHECKING:
    from playwright.sync_api import Page

LONG_MS = 60_000  # a busy machine

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.timeout(600),
]

CELLS = (
    """from experiments.scenario import Dumbbell, FlowSpec, Scenario
from experiments.netlab.spec import Buffer, Direction
from experiments.watched import Watched

path = Direction(rate_bytes_per_s=2.5e6, delay_us=10_000, buffer=Buffer(bdp=1))
flows = tuple(
    FlowSpec(name=f"f{i}", sender=f"s{i}", receiver=f"r{i}", algorithm=("cubic", "reno")[i % 2])
    for i in range(1, 11)
)
scenario = Scenario(name="ten", topology=Dumbbell(pairs=10, bottleneck=path), flows=flows, duration_s=300)
run = Watched(scenario)
panel = run.client.panel()
panel""",
    """import json, pathlib
def reported():
    facts = {
        "beta": run.client.params["cubic.beta"],
        "algorithms": run.client.status()["algorithms"],
        "flows": {str(n): a for n, a in run.client.flows()["algorithm"].items()},
    }
    part = pathlib.Path("facts.part")
    part.write_text(json.dumps(facts))
    part.rename("facts.json")
import threading
def keep_reporting():
    while not stopped.wait(0.2):
        reported()
stopped = threading.Event()
threading.Thread(target=keep_reporting, daemon=True).start()""",
)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, Path]]:
    directory = tmp_path_factory.mktemp("lab")
    write_notebook(directory / "panel.ipynb", CELLS)
    complaints: list[str] = []
    server = Server(directory)
    try:
        with page() as made:
            made.on("pageerror", lambda error: complaints.append(str(error)))
            open_and_run(made, server, "panel.ipynb")
            made.set_default_timeout(LONG_MS)
            yield made, directory / "facts.json"
    finally:
        server.close()
    assert complaints == []


def painted(shown: Page) -> int:
    return int(shown.locator(PANEL).get_attribute("data-painted") or 0)


def wait_for_fact(shown: Page, file: Path, holds: Any) -> None:
    for _ in range(100):
        if file.exists() and holds(json.loads(file.read_text())):
            return
        shown.wait_for_timeout(100)
    raise AssertionError(f"never so: {file.read_text() if file.exists() else 'no facts'}")


def has_colour(shown: Page) -> bool:
    """Whether something is drawn in the canvas that is neither empty nor grey."""
    return bool(
        shown.evaluate(
            """() => {
              const canvas = document.querySelector('.ccp-panel canvas');
              const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
              let found = 0;
              for (let i = 0; i < data.length; i += 4) {
                const colour = data.slice(i, i + 3);
                if (data[i + 3] > 40 && Math.max(...colour) - Math.min(...colour) > 60) found++;
              }
              return found > 200;
            }"""
        )
    )


def test_it_draws_as_reports_come(opened: tuple[Page, Path]) -> None:
    shown, _ = opened
    before = painted(shown)
    shown.wait_for_function(f"Number(document.querySelector('{PANEL}').dataset.painted) >= {before + 20}")
    assert has_colour(shown)
    rows = shown.locator(f"{PANEL} tbody tr")
    assert rows.count() == 10
    shown.wait_for_function(
        f"[...document.querySelectorAll('{PANEL} td:nth-child(3)')].every(e => Number(e.textContent) > 0)"
    )


def test_many_flows_are_bands(opened: tuple[Page, Path]) -> None:
    shown, _ = opened
    shown.locator(f"{PANEL} .legend", has_text="median").wait_for()
    tinted = """() => {
      const canvas = document.querySelector('.ccp-panel canvas');
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      let found = 0;
      for (let i = 0; i < data.length; i += 4) {
        const colour = data.slice(i, i + 3);
        if (data[i + 3] > 0 && Math.max(...colour) - Math.min(...colour) > 15) found++;
      }
      return found / (canvas.width * canvas.height);
    }"""
    assert shown.evaluate(tinted) > 0.02, "lines alone are below one per cent"


def test_bands_are_the_extremes_quartiles_and_median_of_the_flows_shown(opened: tuple[Page, Path]) -> None:
    browser = opened[0].context.browser
    assert browser is not None
    blank = browser.new_page()
    script = front.script().replace(
        "export default", "Object.assign(window, { Bands, Store }); const panel ="
    )
    blank.add_script_tag(content=script)
    found = blank.evaluate("""() => {
      const store = new Store();
      store.quantities = [{ scale: 0.5 }];
      const values = Float32Array.of(10, 20, 30, 40, 50);
      for (let i = 0; i < 200; i++) store.rows.push({ t: 0.05 + i / 10, width: 5, values });
      const columns = [0, 1, 2, 3, 4];
      const bands = new Bands(store);
      const between = () => bands.between(0, 20, 0, columns, [{ members: columns }]);
      const all = between();
      store.hidden.add(4);
      bands.clear();
      const some = between()[3].groups[0];
      return { n: all.length, t: all[0].t, flows: all[3].flows, all: all[3].groups[0], some };
    }""")
    blank.close()
    assert (found["n"], found["t"]) == (100, 0.1)
    assert found["flows"] == [5, 10, 15, 20, 25]
    assert found["all"] == [5, 10, 15, 20, 25]
    assert found["some"] == [5, 10, 15, 15, 20]


def test_wheel_zooms_and_double_click_follows_again(opened: tuple[Page, Path]) -> None:
    shown, _ = opened
    over = shown.locator(f"{PANEL} .u-over")
    over.hover()
    shown.mouse.wheel(0, -300)
    live = shown.get_by_role("button", name="live", exact=True)
    live.wait_for()
    over.dblclick()
    live.wait_for(state="hidden")


def test_a_click_hides_a_flow(opened: tuple[Page, Path]) -> None:
    shown, _ = opened
    row = shown.locator(f"{PANEL} tbody tr").first
    row.click()
    assert "hidden" in (row.get_attribute("class") or "")
    row.click()
    assert "hidden" not in (row.get_attribute("class") or "")


def test_a_field_of_reports_is_drawn(opened: tuple[Page, Path]) -> None:
    shown, _ = opened
    choice = shown.get_by_label("quantity")
    field = shown.locator(f"{PANEL} optgroup option").first
    field.wait_for(state="attached")
    choice.select_option(field.get_attribute("value"))
    before = painted(shown)
    shown.wait_for_function(f"Number(document.querySelector('{PANEL}').dataset.painted) >= {before + 20}")
    choice.select_option("cwnd_bytes")


def test_a_slider_sets_a_parameter_and_an_error_is_shown_in_place(opened: tuple[Page, Path]) -> None:
    shown, facts = opened
    shown.get_by_label("cubic.beta").first.fill("0")
    low = float(shown.get_by_label("cubic.beta").nth(1).input_value())
    wait_for_fact(shown, facts, lambda now: now["beta"] == low)
    mark = shown.locator(f"{PANEL} .mark.parameter").last
    mark.wait_for()
    shown.get_by_role("button", name="pause", exact=True).click()  # it moves with the plot
    assert not mark.locator("span").is_visible()
    mark.hover()
    assert f"cubic.beta = {low}" in mark.locator("span").inner_text()
    shown.mouse.move(0, 0)
    shown.get_by_role("button", name="resume", exact=True).click()
    shown.get_by_label("cubic.beta").nth(1).fill("7")
    shown.get_by_label("cubic.beta").nth(1).press("Enter")
    shown.locator(f"{PANEL} .param .error").wait_for()
    wait_for_fact(shown, facts, lambda now: now["beta"] == low)


def test_the_editor_checks_and_loads_and_shows_the_line_of_an_error(opened: tuple[Page, Path]) -> None:
    shown, facts = opened
    editor = shown.get_by_label("source of the algorithm")
    shown.wait_for_function("document.querySelector('.ccp-panel textarea').value.includes('class ')")
    text = editor.input_value()
    said = shown.locator(f"{PANEL} .said")
    editor.fill(f"{text}\nthis is no Python\n")
    shown.get_by_role("button", name="check", exact=True).click()
    said.locator(".error").wait_for()
    assert "no Python" in said.inner_text() or "syntax" in said.inner_text()
    assert int(shown.locator(f"{PANEL} .gutter .bad").inner_text()) == text.count("\n") + 2
    editor.fill(f"{text}\n# edited\n")
    shown.get_by_role("button", name="check", exact=True).click()
    shown.get_by_text("Check passed.").wait_for()
    before = json.loads(facts.read_text())["algorithms"][0]["sha256"]
    shown.get_by_role("button", name="load", exact=True).click()
    shown.get_by_text("flows switched in").wait_for()
    wait_for_fact(shown, facts, lambda now: now["algorithms"][0]["sha256"] != before)
    shown.locator(f"{PANEL} .events li", has_text="algorithm:reloaded").wait_for()


def test_all_flows_are_switched(opened: tuple[Page, Path]) -> None:
    shown, facts = opened
    shown.get_by_label("algorithm", exact=True).select_option("reno")
    shown.wait_for_function("document.querySelector('.ccp-panel textarea').value.includes('Reno')")
    shown.get_by_role("button", name="switch all flows").click()
    wait_for_fact(shown, facts, lambda now: set(now["flows"].values()) == {"reno"})
    shown.locator(f"{PANEL} tbody td:nth-child(2)", has_text="cubic").first.wait_for(state="detached")
