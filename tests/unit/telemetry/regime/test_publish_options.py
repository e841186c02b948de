from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ccplane.base.errors import UsageError
from telemetry.regime.commands import app

GOOD = {"REGIME": "SHARED", "--peer": "10.0.0.1", "--address": "10.0.0.2", "--broker": "mqtt://127.0.0.1:9"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"REGIME": "QUIET"}, "QUIET"),
        ({"--peer": "nobody"}, "'nobody' does not appear to be an IPv4 or IPv6 address"),
        ({"--address": ""}, "'' does not appear to be an IPv4 or IPv6 address"),
        ({"--reason": "x" * 2001}, "$.reason"),
    ],
)
def test_a_decision_that_cannot_be_is_refused(change: dict[str, str], says: str) -> None:
    options = GOOD | change
    words = [options.pop("REGIME"), *(word for option in options.items() for word in option)]
    result = CliRunner().invoke(app, ["publish", *words])
    assert result.exit_code == 1
    assert "regime.bad_option" in result.output
    assert says in result.output


def test_a_time_to_live_that_cannot_be_is_refused() -> None:
    options = {**GOOD, "--ttl": str(8 * 24 * 3600 * 1000)}
    words = [options.pop("REGIME"), *(word for option in options.items() for word in option)]
    result = CliRunner().invoke(app, ["publish", *words])
    assert isinstance(result.exception, UsageError)
    assert result.exception.slug == "option.out_of_range"
