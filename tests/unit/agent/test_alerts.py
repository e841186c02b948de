"""The alert rules, checked by Prometheus itself: each fires where it should, and none where all is well."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import ccplane.agent.metrics
from broker.options import BusOptions
from ccplane.agent.audit import AuditLog
from ccplane.agent.inbox import Inbox
from ccplane.agent.metrics.families import AgentCollector
from ccplane.agent.telemetry_dispatch import TelemetryDispatch
from tests.unit.agent.fakes import FakeDatapath
from tests.unit.agent.test_metrics import loop_of

RULES = Path(ccplane.agent.metrics.__file__).with_name("alerts.yml")
ALERTS = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
OF_NODE_EXPORTER = {"node_systemd_unit_state"}
OF_PROMETHEUS = {"up"}
OF_RTCP = {"ccplane_rate_limit_no_room_total"}
"""`test_rtcp_metrics.py` checks it."""


class Case(NamedTuple):
    """An alert: series in the notation of promtool, with an interval of 15 s, and when it fires."""

    alert: str
    bad: dict[str, str]
    good: dict[str, str]
    after: str


CASES = [
    Case("CcplaneAgentDown", {'up{job="ccplane"}': "0x80"}, {'up{job="ccplane"}': "1x80"}, "2m"),
    Case("CcplaneAgentDown", {'up{job="other"}': "1x80"}, {'up{job="ccplane"}': "1x80"}, "2m"),
    Case(
        "CcplaneHeartbeatOld",
        {"ccplane_heartbeat_age_seconds": "0.05 2 17 32 47"},
        {"ccplane_heartbeat_age_seconds": "0.05x80"},
        "1m",
    ),
    Case(
        "CcplaneFlowsInFallback",
        {
            'ccplane_flows_in_fallback{cause="failed"}': "3x80",
            'ccplane_flows_in_fallback{cause="new"}': "0x80",
        },
        {
            'ccplane_flows_in_fallback{cause="failed"}': "0x80",
            'ccplane_flows_in_fallback{cause="new"}': "3x80",
        },
        "3m",
    ),
    Case(
        "CcplaneFallbackEntries",
        {'ccplane_fallback_entries_total{cause="silent"}': "0+1x80"},
        # One hand-over.
        {'ccplane_fallback_entries_total{cause="silent"}': "0x4 20x76"},
        "15m",
    ),
    *(
        Case(
            alert,
            {f'ccplane_events_total{{kind="{kind}"}}': "0x4 1x76"},
            {
                f'ccplane_events_total{{kind="{kind}"}}': "1x80",
                'ccplane_events_total{kind="flow:created"}': "0+1x80",
            },
            "3m",
        )
        for alert, kind in (
            ("CcplaneVersionTakenBack", "canary:taken_back"),
            ("CcplaneVersionRefused", "algorithm:refused"),
        )
    ),
    *(
        Case(alert, {series: "0x4 1+1x76"}, {series: "7x80"}, after)
        for alert, series, after in (
            ("CcplaneAlgorithmErrors", "ccplane_agent_algorithm_errors_total", "3m"),
            ("CcplaneFoldErrors", "ccplane_fold_errors_total", "8m"),
            ("CcplaneReportsMissed", "ccplane_reports_missed_total", "8m"),
            ("CcplaneRateLimitTableFull", "ccplane_rate_limit_no_room_total", "3m"),
            ("CcplaneAuditErrors", "ccplane_audit_errors_total", "3m"),
        )
    ),
    Case("CcplaneNotUpgraded", {"ccplane_not_upgraded": "2x80"}, {"ccplane_not_upgraded": "0x80"}, "1m"),
    Case(
        "CcplaneSlotsScarce",
        {'ccplane_slots{state="free"}': "4x80", 'ccplane_slots{state="used"}': "96x80"},
        {'ccplane_slots{state="free"}': "10x80", 'ccplane_slots{state="used"}': "90x80"},
        "6m",
    ),
    Case(
        "CcplaneSocketsWithoutSlot",
        {'ccplane_sockets_without_slot{cause="quota"}': "2x80"},
        {'ccplane_sockets_without_slot{cause="quota"}': "0x80"},
        "2m",
    ),
    Case(
        "CcplaneBusDisconnected",
        {"ccplane_bus_away_seconds": "0 0 15 30 45 60 75 90"},
        {"ccplane_bus_away_seconds": "0 15 30 45 0x76"},
        "105s",
    ),
    Case(
        "CcplaneUnitFailed",
        {'node_systemd_unit_state{name="ccplane-agent.service",state="failed"}': "0 1x80"},
        {
            'node_systemd_unit_state{name="ccplane-agent.service",state="active"}': "1x80",
            'node_systemd_unit_state{name="other.service",state="failed"}': "1x80",
        },
        "1m",
    ),
]
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool: apt-get install prometheus"
)


def promtool(*command: str | Path) -> None:
    done = subprocess.run(["promtool", *command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_prometheus_loads_the_rules() -> None:
    promtool("check", "rules", RULES)


@needs_promtool
def test_each_alert_fires_and_is_quiet_where_all_is_well(tmp_path: Path) -> None:
    def test(series: dict[str, str], at: str, alerts: list[str]) -> dict[str, Any]:
        present = {'up{job="ccplane"}': "1x80"} if not any(name.startswith("up") for name in series) else {}
        given = [{"series": name, "values": values} for name, values in (present | series).items()]
        expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts]
        expr = 'count by (alertname) (ALERTS{alertstate="firing"})'
        return {
            "interval": "15s",
            "input_series": given,
            "promql_expr_test": [{"expr": expr, "eval_time": at, "exp_samples": expected}],
        }

    tests = [test(case.bad, case.after, [case.alert]) for case in CASES]
    tests += [test(case.good, case.after, []) for case in CASES]
    tests.append(test({name: values for case in CASES for name, values in case.good.items()}, "18m", []))
    file = tmp_path / "tests.yml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": tests})
    )
    promtool("test", "rules", file)


def test_each_alert_has_a_case() -> None:
    assert {rule["alert"] for rule in ALERTS} == {case.alert for case in CASES}


def test_each_metric_of_the_rules_is_one_that_an_agent_has(tmp_path: Path) -> None:
    agent_loop = loop_of(FakeDatapath())
    log = AuditLog(tmp_path / "audit")
    inbox = Inbox(BusOptions(), sender="a")
    dispatch = TelemetryDispatch(agent_loop, inbox, "a", lambda: 0)
    collector = AgentCollector(agent_loop, dispatch, inbox, audit_log=log)
    collected = list(collector.collect())
    log.close()
    known = {f"{one.name}_total" if one.type == "counter" else one.name for one in collected}
    named = {
        name
        for rule in ALERTS
        for name in re.findall(r"\b(?:up|[a-z]+_[a-z_]+)\b(?=[{\[) ]|$)", rule["expr"])
    }
    assert len(named) > 10
    assert named - OF_NODE_EXPORTER - OF_PROMETHEUS - OF_RTCP <= known
    kinds = {
        sample.labels["kind"] for one in collected if one.name == "ccplane_events" for sample in one.samples
    }
    used = {kind for rule in ALERTS for kind in re.findall(r'kind="([^"]+)"', rule["expr"])}
    assert used
    assert used <= kinds
