"""Protocol of the control socket: requests, answers and stream messages, in JSON with every field checked.

A request is one JSON object: `{"version": 1, "id": 7, "ask": {"do": "set_params", "values": {"beta": 0.8}}}`.
The answer has the same `id`, and either `ok` or `error`. A stream message has two frames: the topic
(`report/FLOW/`, `decision/FLOW/`, `event/KIND` or `telemetry/KIND`) and one JSON object.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, Struct, field

from ccplane.base.errors import CcpError, Several

VERSION: Final = 1
"""Version of requests and answers."""

MAX_BYTES: Final = 4 << 20
"""Maximum size of a request [bytes]; the largest ones contain an algorithm's source."""

_MAX: Final = (1 << 63) - 1
FlowNumber = Annotated[int, Meta(ge=0, le=_MAX)]
Word = Annotated[str, Meta(min_length=1, max_length=256)]
Text = Annotated[str, Meta(max_length=MAX_BYTES)]
Seconds = Annotated[float, Meta(ge=1, le=86_400)]
"""Duration of a trial [s]."""
Value = bool | Annotated[int, Meta(ge=-_MAX, le=_MAX)] | float | Annotated[str, Meta(max_length=4096)]
"""A parameter's value, or its text."""


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do"):
    """Base of all requests.

    Attributes:
        changes: What the request changes; requests that change something are recorded in the audit log.
    """

    changes: ClassVar[Literal["nothing", "settings", "versions"]] = "nothing"


class Status(Request, frozen=True, kw_only=True, tag="status"):
    """Return the agent's algorithms, start time and counters."""


class Flows(Request, frozen=True, kw_only=True, tag="flows"):
    """Return all flows with their totals."""


class FlowRequest(Request, frozen=True, kw_only=True, tag="flow"):
    """Return all data of one flow, including parameters, algorithm state and telemetry."""

    flow: FlowNumber


class GetParams(Request, frozen=True, kw_only=True, tag="get_params"):
    """Return the parameters of all running algorithms or of one; their values for all flows or for one."""

    algorithm: Word | None = None
    flow: FlowNumber | None = None


class SetParams(Request, frozen=True, kw_only=True, tag="set_params"):
    """Set parameters: for all flows, one flow, the flows of an algorithm, or the flows that match a rule."""

    changes: ClassVar = "settings"

    values: Annotated[dict[Word, Value], Meta(min_length=1, max_length=256)]
    flow: FlowNumber | None = None
    algorithm: Word | None = None
    rule: Word | None = None


class GetSource(Request, frozen=True, kw_only=True, tag="source"):
    """Return the source of a running algorithm."""

    algorithm: Word


class Load(Request, frozen=True, kw_only=True, tag="load"):
    """Load an algorithm from text: a new version of a running one, or another algorithm.

    Attributes:
        source: The text.
        name: Its name; by default the name in the source.
        class_name: Its class, if the source defines several algorithms.
        file: The file that the text comes from, for errors.
        check: Only check whether it could be loaded.
        canary: First try it on these new flows: `5%`, `dport=5001`, or both.
        seconds: Duration of the trial [s].
    """

    changes: ClassVar = "versions"

    source: Text
    name: Word | None = None
    class_name: Word | None = None
    file: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    check: bool = False
    canary: Word | None = None
    seconds: Seconds | None = None


class Reload(Request, frozen=True, kw_only=True, tag="reload"):
    """Reload the file of a running algorithm.

    Attributes:
        algorithm: The algorithm; None for all.
        canary: As in `Load`; for one algorithm only.
        seconds: As in `Load`.
    """

    changes: ClassVar = "versions"

    algorithm: Word | None = None
    canary: Word | None = None
    seconds: Seconds | None = None


class EndCanary(Request, frozen=True, kw_only=True, tag="end_canary"):
    """End the trial of a new version.

    Attributes:
        algorithm: The algorithm.
        widen: Whether the new version takes over; else it is taken back.
    """

    changes: ClassVar = "versions"

    algorithm: Word
    widen: bool


class Rollback(Request, frozen=True, kw_only=True, tag="rollback"):
    """Return to the previous version, or, if a version is on trial, end only the trial."""

    changes: ClassVar = "versions"

    algorithm: Word


class Switch(Request, frozen=True, kw_only=True, tag="switch"):
    """Move flows to another running algorithm: all flows, or a selection.

    Attributes:
        algorithm: The new algorithm.
        flow: Only this flow.
        before: Only flows of this algorithm.
        rule: Only flows that match.
    """

    changes: ClassVar = "settings"

    algorithm: Word
    flow: FlowNumber | None = None
    before: Word | None = None
    rule: Word | None = None


class InstallProgram(Request, frozen=True, kw_only=True, tag="install_program"):
    """Replace a fold program of a running algorithm, or add one."""

    changes: ClassVar = "versions"

    algorithm: Word
    program: Word = "default"
    source: Text


class Subscribe(Request, frozen=True, kw_only=True, tag="subscribe_telemetry"):
    """Subscribe to a kind of telemetry, or unsubscribe from it."""

    kind: Word
    on: bool = True


class Events(Request, frozen=True, kw_only=True, tag="events"):
    """Return the last events; the streams deliver future events."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Upgrade(Request, frozen=True, kw_only=True, tag="upgrade"):
    """Start the installed version as another process of this service, which takes the flows over.

    Attributes:
        arguments: Its arguments of `ccp run`; None for those of this agent.
    """

    changes: ClassVar = "versions"

    arguments: Annotated[list[Annotated[str, Meta(max_length=4096)]], Meta(max_length=1024)] | None = None


class Stop(Request, frozen=True, kw_only=True, tag="stop"):
    """Stop the agent, as Ctrl-C does."""

    changes: ClassVar = "settings"


Ask = (
    Status
    | Flows
    | FlowRequest
    | GetParams
    | SetParams
    | GetSource
    | Load
    | Reload
    | EndCanary
    | Rollback
    | Switch
    | InstallProgram
    | Subscribe
    | Events
    | Upgrade
    | Stop
)
"""All requests."""


class Envelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request with its header.

    Attributes:
        version: `VERSION`.
        id: Number, repeated in the answer.
        ask: The request.
    """

    version: int = VERSION
    id: Annotated[int, Meta(ge=0, le=_MAX)] = 0
    ask: Ask


class Problem(Struct, frozen=True, kw_only=True):
    """One error; the fields are those of `ccplane.base.errors.CcpError`."""

    slug: str
    what: str
    where: str = ""
    why: str = ""
    fix: str = ""


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer.

    Attributes:
        id: Number of the request; 0 if it could not be parsed.
        ok: The result.
        error: The problems, if the request failed.
    """

    id: int = field(default=0)
    ok: Any = None
    error: list[Problem] | None = None


def problems_of(error: CcpError) -> list[Problem]:
    """Return an error in the format of the socket."""
    singles = error.errors if isinstance(error, Several) else (error,)
    return [
        Problem(slug=one.slug, what=one.message, where=one.where, why=one.why, fix=one.fix) for one in singles
    ]


def error_of(problems: list[Problem]) -> CcpError:
    """Return the error received over the socket."""
    errors = [CcpError(one.slug, one.what, one.where, one.why, one.fix) for one in problems]
    return errors[0] if len(errors) == 1 else Several(errors)
