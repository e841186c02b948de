"""`ccp top` with a real agent and a real transfer, on a screen of memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.widgets import Static

from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from ccplane.agent.monitor.app import Monitor
from ccplane.agent.monitor.detail import DetailScreen
from ccplane.agent.monitor.loop_source import open_source
from experiments.agent_process import PIN_DIR, running_agent
from experiments.netlab import Path
from tests.kernel.driving import Start
from tests.unit.agent.monitor.screens import press


async def look_until(app: Monitor, seen: Callable[[], object], looks: int = 600) -> None:
    """Take looks until something is seen."""
    for _ in range(looks):
        await app.look()
        if seen():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not seen in {looks} looks")


def reported(app: Monitor, part: str) -> str:
    """Words of a part of the screen."""
    console = app.console
    with console.capture() as captured:
        console.print(app.screen.query_one(f"#{part}", Static).content)
    return captured.get()


def test_watching_looking_into_and_changing_a_flow(path_100mbit: Path, start_transfer: Start) -> None:
    async def run() -> None:
        with running_agent("cubic", "reno") as agent, Client(control_socket(PIN_DIR)) as client:
            start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=60)
            app = Monitor(open_source(PIN_DIR), interval_s=None)
            async with app.run_test(size=(160, 40)) as pilot:

                def fast() -> list[int]:
                    flows = app.histories.flows.items()
                    return [one for one, flow in flows if (flow.row.throughput_bytes_per_s or 0) > 5e6]

                def steered_by() -> str:
                    return app.histories.flows[flow_id].row.steered_by

                await look_until(app, fast)
                (flow_id,) = fast()
                assert steered_by() == "cubic/default"
                await pilot.pause()
                # The fastest flow is the first; the cursor may have stayed with one that was there before it.
                await press(app, pilot, "up", "up", "up", "enter")
                assert isinstance(app.screen, DetailScreen)
                assert app.screen.flow_id == flow_id
                assert "beta" in reported(app, "parameters")
                assert "flow:created" in reported(app, "happened")

                await press(app, pilot, "s", *"beta", "equals_sign", *"0.8", "enter")
                ((beta,),) = (
                    [one["value"] for one in rows if one["name"] == "beta"]
                    for rows in client.get_params(flow=flow_id).values()
                )
                assert beta == 0.8
                await look_until(app, lambda: "param:set" in reported(app, "happened"))

                await press(app, pilot, "w", "enter")  # the only other algorithm is chosen already
                assert client.flow(flow_id)["algorithm"] == "reno"
                await look_until(app, lambda: steered_by() == "reno/default")

                agent.kill()
                await look_until(app, lambda: steered_by() == "fallback")
                assert "control.no_agent" in reported(app, "parameters")
                await press(app, pilot, "s")
                assert "control.no_agent: no agent is running" in reported(app, "status")

    asyncio.run(run())
