"""Decisions over AWS Systems Manager: a channel to senders that no broker of the receiver's reaches.

The way of R-Hybrid's prototype: the receiver asks Systems Manager to run a command at the sender
(`SendCommand` with the document AWS-RunShellScript). The command is `ccp regime tell`, which publishes the
decision on a broker there; what follows decisions at the sender knows no difference.

    channel = ssm_channel(SsmOptions(targets=("i-0123456789abcdef0",)))
    channel.publish(decision, ttl_ms)  # at every interval; never waits

Each command is a call of an API that has limits: only a regime that changed is told, and one that did not at
half of its time to live. A command that its host does not begin within 30 s is never run, so that nothing old
is told late.

Source: K. Nguyen, "R-Hybrid", sections 4.1, 4.4 and 4.5. Deviation: what is told has an end. The prototype's
sender stays as it was told when the receiver, or Systems Manager, is gone.
"""

from __future__ import annotations

import logging
import re
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol

import typer
from msgspec import Struct

from broker.options import BusOptions
from ccp_base.extras import extra_part
from telemetry.regime.detector import Regime
from telemetry.regime.errors import RegimeError
from telemetry.schema import MAX_TTL_MS, RegimeDecision

log = logging.getLogger("ccplane.regime")

DOCUMENT: Final = "AWS-RunShellScript"
BEGIN_WITHIN_S: Final = 30
"""The least that Systems Manager takes as `TimeoutSeconds` [s]."""
RETRY_S: Final = 5.0
"""How long to wait after a call that failed [s]; boto3 has tried it some times by then."""
CLOSE_S: Final = 1.0
"""How long `close` waits for a call that is under way [s]."""
MAX_INSTANCES: Final = 50
MAX_TAGS: Final = 5

BROKER: Final = "mqtt://127.0.0.1"
TTL_MS: Final = 600_000
COMMAND: Final = "ccp"

Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--regime-ssm",
        metavar="TARGET",
        help="Tell this sender over AWS Systems Manager, too: i-... or tag:KEY=VALUE; repeat it.",
    ),
]
Broker = Annotated[
    str, typer.Option("--regime-ssm-broker", help="The broker there that is told, as seen from there.")
]
TtlMs = Annotated[
    int, typer.Option("--regime-ssm-ttl-ms", min=1, max=MAX_TTL_MS, help="How long it is true there.")
]
Command = Annotated[str, typer.Option("--regime-ssm-command", help="How `ccp` is called there.")]
"""Options of commands that tell senders in this way: see `channel_for`."""

_INSTANCE: Final = re.compile(r"(i-([0-9a-f]{8}|[0-9a-f]{17})|mi-[0-9a-f]{17})")
_TAG: Final = re.compile(r"(tag:[^=]{1,128})=(.{1,256})")
_MS_PER_S: Final = 1000


class SsmOptions(Struct, frozen=True, kw_only=True):
    """Whom to tell, and how.

    Attributes:
        targets: The senders: instances (`i-...`, `mi-...`), or tags (`tag:KEY=VALUE`) that they all have.
        broker: The broker, as seen from the senders.
        ttl_ms: How long a decision is true [ms].
        command: How `ccp` is called there; a path if it is not among root's programs.
    """

    targets: tuple[str, ...]
    broker: str = BROKER
    ttl_ms: int = TTL_MS
    command: str = COMMAND

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        instances = [one for one in self.targets if _INSTANCE.fullmatch(one)]
        tags = [one for one in self.targets if _TAG.fullmatch(one)]
        if len(instances) + len(tags) < max(1, len(self.targets)):
            strange = [one for one in self.targets if one not in instances and one not in tags]
            _refuse("targets", strange, "give i-..., mi-... or tag:KEY=VALUE")
        if (instances and tags) or len(instances) > MAX_INSTANCES or len(tags) > MAX_TAGS:
            _refuse("targets", list(self.targets), f"{MAX_INSTANCES} instances at most, or {MAX_TAGS} tags")
        if not 1 <= self.ttl_ms <= MAX_TTL_MS:
            _refuse("ttl_ms", self.ttl_ms, f"1 to {MAX_TTL_MS}")
        way = BusOptions.from_url(self.broker)
        if way.password is not None:
            _refuse(
                "broker", str(way), "leave the password out: Systems Manager would keep it with the command"
            )


class Client(Protocol):
    """What is used of boto3's client of the service `ssm`."""

    def send_command(self, **fields: Any) -> dict[str, Any]:
        """Have a document run; raises exceptions of botocore's."""
        ...


@dataclass(slots=True)
class Counters:
    """What happened so far.

    Attributes:
        sent: Commands that Systems Manager took.
        failed: Calls that failed.
    """

    sent: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class _Told:
    regime: Regime
    again_s: float


class SsmChannel:
    """Tells decisions from a thread of its own.

    Attributes:
        counters: What happened so far.
    """

    def __init__(
        self,
        client: Client,
        options: SsmOptions,
        *,
        retry_s: float = RETRY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin.

        Args:
            client: Of the service `ssm`.
            options: Whom to tell, and how.
            retry_s: How long to wait after a call that failed [s].
            clock: Seconds, monotonic.
        """
        self.counters = Counters()
        self._client = client
        self._options = options
        self._retry_s = retry_s
        self._clock = clock
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._told: dict[_Path, _Told] = {}
        self._waiting: dict[_Path, RegimeDecision] = {}
        self._failure = ""
        self._thread = threading.Thread(target=self._work, name="ccp-ssm", daemon=True)
        self._thread.start()

    def publish(self, decision: RegimeDecision, ttl_ms: int) -> None:
        """Tell a decision, if there is something new in it; never waits.

        Args:
            decision: What to say.
            ttl_ms: How long it is true on the bus [ms]. Here it is true as long as the options say.
        """
        path = _path(decision)
        with self._changed:
            told = self._told.get(path)
            if told is not None and told.regime == decision.regime and self._clock() < told.again_s:
                self._waiting.pop(path, None)  # it changed, and changed back before that was told
            else:
                self._waiting[path] = decision
                self._changed.notify()

    def close(self) -> None:
        """End; what has not been told yet is not told."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
        self._thread.join(CLOSE_S)

    def _work(self) -> None:
        while (decision := self._next()) is not None:
            if not self._tell(decision):
                self._closing.wait(self._retry_s)

    def _next(self) -> RegimeDecision | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing.is_set())
            if self._closing.is_set():
                return None
            return self._waiting.pop(next(iter(self._waiting)))

    def _tell(self, decision: RegimeDecision) -> bool:
        """Have one decision told; if that fails, the next interval's takes its place."""
        try:
            answer = self._client.send_command(**command_of(decision, self._options))
            log.info("told %s as command %s", decision.regime, answer["Command"]["CommandId"])
        except Exception as error:  # botocore's have no class in common
            self.counters.failed += 1
            failure = f"{type(error).__name__}: {error}"
            if failure != self._failure:
                log.warning("Systems Manager was not told: %s (the same again is only counted)", failure)
            self._failure = failure
            return False
        self._failure = ""
        path, now_s = _path(decision), self._clock()
        with self._changed:
            self._told = {one: told for one, told in self._told.items() if now_s < told.again_s}
            self._told[path] = _Told(decision.regime, now_s + self._options.ttl_ms / _MS_PER_S / 2)
            newer = self._waiting.get(path)
            if newer is not None and newer.regime == decision.regime:
                del self._waiting[path]
            self.counters.sent += 1
        return True


_Path = tuple[str | None, str | None]


def _path(decision: RegimeDecision) -> _Path:
    return decision.peer, decision.address


def command_of(decision: RegimeDecision, options: SsmOptions) -> dict[str, Any]:
    """Return the arguments of `SendCommand` that tell a decision.

    Args:
        decision: About a peer.
        options: Whom to tell, and how.
    """
    words = [options.command, "regime", "tell", decision.regime]
    told = {
        "--peer": decision.peer,
        "--address": decision.address,
        "--broker": options.broker,
        "--ttl-ms": str(options.ttl_ms),
        "--reason": decision.reason,
    }
    words += [word for name, value in told.items() if value for word in (name, value)]
    fields: dict[str, Any] = {
        "DocumentName": DOCUMENT,
        "Parameters": {"commands": [shlex.join(words)]},
        "Comment": f"regime {decision.regime}",
        "TimeoutSeconds": BEGIN_WITHIN_S,
    }
    tags = [match for one in options.targets if (match := _TAG.fullmatch(one))]
    if tags:
        fields["Targets"] = [{"Key": tag[1], "Values": [tag[2]]} for tag in tags]
    else:
        fields["InstanceIds"] = list(options.targets)
    return fields


def channel_for(targets: list[str] | None, broker: str, ttl_ms: int, command: str) -> SsmChannel | None:
    """Return the channel that a command's options ask for; None if they name nobody.

    Raises:
        RegimeError: `regime.bad_option` or `regime.no_aws`.
        BusError: `bus.bad_url`.
    """
    if not targets:
        return None
    return ssm_channel(SsmOptions(targets=tuple(targets), broker=broker, ttl_ms=ttl_ms, command=command))


def ssm_channel(options: SsmOptions) -> SsmChannel:
    """Return a channel with the region and the credentials of this process, as boto3 finds them.

    Raises:
        LoadError: `load.no_extra`.
        RegimeError: `regime.no_aws`.
    """
    with extra_part():
        import boto3
        from botocore.exceptions import BotoCoreError
    try:
        session = boto3.Session()
        if session.get_credentials() is None:
            raise _no_aws("there are no credentials", "", "give the instance a role that may ssm:SendCommand")
        return SsmChannel(session.client("ssm"), options)
    except BotoCoreError as error:
        raise _no_aws("boto3 cannot begin", str(error), "set AWS_DEFAULT_REGION") from error


def _no_aws(message: str, why: str, fix: str) -> RegimeError:
    return RegimeError("regime.no_aws", message, "AWS Systems Manager", why, fix)


def _refuse(name: str, value: object, fix: str) -> None:
    option = "--regime-ssm" if name == "targets" else f"--regime-ssm-{name.replace('_', '-')}"
    raise RegimeError("regime.bad_option", f"{name} cannot be {value}", option, fix=fix)
