"""Text that arrives on the bus, or that algorithms raise, reaches the terminal as text."""

from __future__ import annotations

import io
import logging

import msgspec
import pytest
from rich.console import Console

from broker.messages import Incoming
from broker.options import BusOptions
from ccplane.agent import console
from ccplane.agent.blame import text_of
from ccplane.agent.commands.tail import line
from ccplane.agent.features.regime.actuator import RegimeEvent
from ccplane.agent.features.regime.commands import show
from ccplane.agent.flowtable import render
from ccplane.agent.monitor import panels
from ccplane.agent.monitor.source import Happened, Received
from ccplane.base.errors import UsageError
from ccplane.base.printable import PrintableFormatter, printable
from telemetry.bus import Bus, mono_us
from telemetry.codec import encode
from telemetry.schema import Envelope, RegimeDecision, Sample

EVIL = "\x1b]0;x\x07 \x1b[2J \x9b31m \r \u202egnp.exe \u2028 [bold]b[/bold] [/x] end"
SHOWN = r"\x1b]0;x\x07 \x1b[2J \x9b31m \r \u202egnp.exe \u2028 [bold]b[/bold] [/x] end"


def decision() -> Sample:
    samples: list[Sample] = []
    bus = Bus(BusOptions(), sender="host-a", on_sample=samples.append)
    body = RegimeDecision(regime="SHARED", reason=EVIL)
    message = Envelope(version=1, sender="rx", t_mono_us=1, t_wall_us=1, body=body)
    bus._receive(Incoming("ccp/v1/regime/rx/host", encode(message), False, "", mono_us()))
    return samples[0]


def shown(renderable: object) -> str:
    out = io.StringIO()
    Console(file=out, width=300, color_system=None).print(renderable)
    assert all(one.isprintable() or one == "\n" for one in out.getvalue()), ascii(out.getvalue())
    return out.getvalue()


def test_a_decision_in_the_stream() -> None:
    row = {**msgspec.to_builtins(decision()), "stream": "telemetry", "flow_ids": [1]}
    assert line(row).endswith(f"reason={SHOWN}")
    event = {"stream": "event", "t_wall_us": 0, "kind": "a:b", "algorithm": "x", "flow_id": None}
    assert line({**event, "detail": {"reason": EVIL + "\n"}}).endswith(f"reason={SHOWN}\\n")


def test_a_regime_and_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    event = RegimeEvent(kind="regime:switched", before="cubic", after="dctcp", reason=EVIL, why="a\nb")
    show(event)
    assert f"{SHOWN}  a\\nb\n" in capsys.readouterr().out
    show(event, as_json=True)
    (document,) = capsys.readouterr().out.splitlines()
    assert document.isascii()
    assert document.isprintable()
    assert msgspec.json.decode(document, type=RegimeEvent) == event


def test_failures_in_the_table_of_flows() -> None:
    assert f"mine.on_telemetry: {SHOWN}" in shown(render([], {}, None, [f"mine.on_telemetry: {EVIL}"]))


def test_telemetry_and_events_on_the_screen() -> None:
    received = Received("regime_decision", "rx", 1.0, {"reason": EVIL})
    one_line = " ".join(SHOWN.replace(r"\r", "").replace(r"\u2028", "").split())
    assert one_line in shown(panels.telemetry([received]))
    assert one_line in shown(panels.events([Happened(0.0, "flow:failed", "mine", 1, {"error": EVIL})], 5))


def test_what_an_algorithm_raises(capsys: pytest.CaptureFixture[str]) -> None:
    assert text_of(ValueError(EVIL)) == f"ValueError: {SHOWN}"
    console.show_error(UsageError("a.b", EVIL, fix="two\nlines"), debug=False)
    assert SHOWN in capsys.readouterr().err


def test_log_lines_and_tracebacks() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(PrintableFormatter("%(message)s"))
    log = logging.getLogger("ccplane.test_terminal")
    log.propagate = False
    log.addHandler(handler)
    try:
        raise ValueError(EVIL)
    except ValueError:
        log.exception("%s", EVIL)
    assert out.getvalue().startswith(SHOWN + "\nTraceback")
    assert out.getvalue().endswith(f"ValueError: {SHOWN}\n")


def test_text_in_any_language_stays() -> None:
    for text in ("", "plain", "Größe 5 µs → 日本語", "a b"):
        assert printable(text) == text
    assert printable("a\nb\tc", keep="\n") == "a\nb\\tc"
    assert printable("\ud800") == "\\ud800"
