"""Decisions over AWS Systems Manager, held against botocore's own model of the service."""

from __future__ import annotations

import datetime
import shlex
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import botocore.session
import pytest
from botocore.stub import ANY, Stubber

from ccp_base.errors import LoadError
from telemetry.errors import TelemetryError
from telemetry.regime import ssm
from telemetry.regime.ssm import SsmChannel, SsmOptions, command_of
from telemetry.schema import RegimeDecision

INSTANCE = "i-0123456789abcdef0"
TTL_S = 600
PATIENCE_S = 30.0


def decision(regime: str, peer: str = "10.0.0.1", **more: Any) -> RegimeDecision:
    return RegimeDecision(regime=regime, peer=peer, address="10.0.0.2", **more)


@pytest.fixture(autouse=True)
def no_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's own configuration counts."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


def wait_until(holds: Callable[[], object]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.001)


class Service:
    """A client of the service `ssm` that checks what it is asked, and answers, by botocore's model."""

    def __init__(self) -> None:
        session = botocore.session.get_session()
        self.client = session.create_client(
            "ssm", region_name="us-east-1", aws_access_key_id="id", aws_secret_access_key="secret"
        )
        self.stub = Stubber(self.client)
        self.stub.activate()

    def takes(self, count: int = 1) -> None:
        command = {
            "CommandId": "b8eac879-0541-439d-94ec-47a80d554f44",
            "DocumentName": "AWS-RunShellScript",
            "RequestedDateTime": datetime.datetime(2026, 11, 21),
            "Status": "Pending",
        }
        expected = dict.fromkeys(command_of(decision("SHARED"), SsmOptions(targets=(INSTANCE,))), ANY)
        for _ in range(count):
            self.stub.add_response("send_command", {"Command": command}, expected)

    def refuses(self, slug: str) -> None:
        self.stub.add_client_error("send_command", slug, "no", 400)

    def send_command(self, **fields: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.client.send_command(**fields)
        return answer


class Watched(Service):
    """The same, which keeps what was told, and may be held up."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[list[str]] = []
        self.may_go = threading.Event()
        self.may_go.set()

    def send_command(self, **fields: Any) -> dict[str, Any]:
        words = shlex.split(fields["Parameters"]["commands"][0])
        self.told.append(words[3:5] + words[5:6])
        assert self.may_go.wait(PATIENCE_S)
        return super().send_command(**fields)

    @property
    def regimes(self) -> list[str]:
        return [words[0] for words in self.told]


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def service() -> Watched:
    return Watched()


def channel_of(service: Service, clock: Clock | None = None) -> SsmChannel:
    options = SsmOptions(targets=(INSTANCE,), ttl_ms=TTL_S * 1000)
    return SsmChannel(service, options, retry_s=0.0, clock=clock or Clock())


def has_sent(channel: SsmChannel, count: int) -> bool:
    return channel.counters.sent == count


def has_failed(channel: SsmChannel, count: int) -> bool:
    return channel.counters.failed == count


def test_the_command_is_one_that_botocore_and_a_shell_understand(service: Service) -> None:
    options = SsmOptions(targets=(INSTANCE,), command="/opt/ccplane/bin/ccp")
    fields = command_of(decision("SINGLE_OWNER", reason="it's quiet; rm -rf /"), options)
    service.takes()
    service.send_command(**fields)
    assert fields["InstanceIds"] == [INSTANCE]
    (line,) = fields["Parameters"]["commands"]
    words = shlex.split(line)
    assert words[:4] == ["/opt/ccplane/bin/ccp", "regime", "tell", "SINGLE_OWNER"]
    assert dict(zip(words[4::2], words[5::2], strict=True)) == {
        "--peer": "10.0.0.1",
        "--address": "10.0.0.2",
        "--broker": "mqtt://127.0.0.1",
        "--ttl-ms": "600000",
        "--reason": "it's quiet; rm -rf /",
    }


def test_senders_may_be_named_by_tags(service: Service) -> None:
    fields = command_of(decision("SHARED"), SsmOptions(targets=("tag:Name=client", "tag:Env=a=b")))
    assert "InstanceIds" not in fields
    assert fields["Targets"] == [
        {"Key": "tag:Name", "Values": ["client"]},
        {"Key": "tag:Env", "Values": ["a=b"]},
    ]
    service.stub.add_response("send_command", {}, {**fields})
    service.client.send_command(**fields)


def test_only_a_regime_that_changed_is_told(service: Watched) -> None:
    service.takes(3)
    channel = channel_of(service)
    for told, regime in ((1, "SHARED"), (1, "SHARED"), (2, "SINGLE_OWNER"), (2, "SINGLE_OWNER")):
        channel.publish(decision(regime), 1000)
        wait_until(partial(has_sent, channel, told))
    channel.publish(decision("SINGLE_OWNER", peer="10.0.0.9"), 1000)  # another path
    wait_until(partial(has_sent, channel, 3))
    channel.close()
    assert service.regimes == ["SHARED", "SINGLE_OWNER", "SINGLE_OWNER"]
    service.stub.assert_no_pending_responses()


def test_a_regime_that_stays_is_told_again_before_it_expires(service: Watched) -> None:
    service.takes(2)
    clock = Clock()
    channel = channel_of(service, clock)
    channel.publish(decision("SINGLE_OWNER"), 1000)
    wait_until(partial(has_sent, channel, 1))
    clock.now_s = TTL_S / 2 - 1
    channel.publish(decision("SINGLE_OWNER"), 1000)
    clock.now_s = TTL_S / 2
    channel.publish(decision("SINGLE_OWNER"), 1000)
    wait_until(partial(has_sent, channel, 2))
    channel.close()
    assert len(service.told) == 2


def test_nobody_waits_for_the_cloud_and_only_the_newest_is_told(service: Watched) -> None:
    service.takes(2)
    service.may_go.clear()
    channel = channel_of(service)
    channel.publish(decision("SINGLE_OWNER"), 1000)
    wait_until(lambda: service.told)
    channel.publish(decision("SHARED"), 1000)  # the first is still under way
    channel.publish(decision("SINGLE_OWNER"), 1000)
    channel.publish(decision("SHARED"), 1000)
    service.may_go.set()
    wait_until(partial(has_sent, channel, 2))
    channel.close()
    assert service.regimes == ["SINGLE_OWNER", "SHARED"]


def test_what_changed_back_meanwhile_is_not_told(service: Watched) -> None:
    service.takes(2)
    channel = channel_of(service)
    channel.publish(decision("SHARED"), 1000)
    wait_until(partial(has_sent, channel, 1))
    service.may_go.clear()
    channel.publish(decision("SHARED", peer="10.0.0.9"), 1000)
    wait_until(lambda: len(service.told) == 2)
    channel.publish(decision("SINGLE_OWNER"), 1000)
    channel.publish(decision("SHARED"), 1000)
    channel.publish(decision("SHARED", peer="10.0.0.9"), 1000)  # the same that is under way
    service.may_go.set()
    wait_until(partial(has_sent, channel, 2))
    channel.close()
    assert service.regimes == ["SHARED", "SHARED"]


def test_what_fails_is_counted_and_tried_again(service: Watched, caplog: pytest.LogCaptureFixture) -> None:
    service.refuses("ThrottlingException")
    service.refuses("ThrottlingException")
    service.refuses("AccessDeniedException")
    service.takes()
    channel = channel_of(service)
    for failures in (1, 2, 3):
        channel.publish(decision("SHARED"), 1000)
        wait_until(partial(has_failed, channel, failures))
    channel.publish(decision("SHARED"), 1000)
    wait_until(partial(has_sent, channel, 1))
    channel.close()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 2
    assert "ThrottlingException" in warnings[0]
    assert "AccessDeniedException" in warnings[1]


def test_a_channel_without_answer_closes(service: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssm, "CLOSE_S", 0.0)
    service.takes()
    service.may_go.clear()
    channel = channel_of(service)
    channel.publish(decision("SHARED"), 1000)
    wait_until(lambda: service.told)
    channel.publish(decision("SINGLE_OWNER"), 1000)
    channel.close()
    service.may_go.set()
    wait_until(lambda: not any(thread.name == "ccp-ssm" for thread in threading.enumerate()))
    assert service.regimes == ["SHARED"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"targets": ()}, "targets cannot be []"),
        ({"targets": (INSTANCE, "client")}, "targets cannot be ['client']"),
        ({"targets": (INSTANCE, "tag:Name=client")}, "targets cannot be ['i-"),
        ({"targets": (INSTANCE,) * 51}, "50 instances at most"),
        ({"targets": (INSTANCE,), "ttl_ms": 0}, "ttl_ms cannot be 0"),
        (
            {"targets": (INSTANCE,), "broker": "mqtt://anna:secret@bus"},
            "broker cannot be mqtt://anna@bus:1883",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(options: Any, says: str) -> None:
    with pytest.raises(TelemetryError) as caught:
        SsmOptions(**options)
    assert caught.value.slug == "regime.bad_option"
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_channel_needs_boto3_credentials_and_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    options = SsmOptions(targets=(INSTANCE,))

    def refusal() -> str:
        with pytest.raises(TelemetryError) as caught:
            ssm.ssm_channel(options)
        assert caught.value.slug == "regime.no_aws"
        return str(caught.value)

    assert "there are no credentials" in refusal()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert "You must specify a region" in refusal()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    ssm.ssm_channel(options).close()
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(LoadError, match=r"ccplane\[aws\]"):
        ssm.ssm_channel(options)
