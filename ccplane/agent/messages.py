"""What goes over the control socket: requests, answers, and what streams say. JSON; every field is checked.

A request is one JSON object: `{"version": 1, "id": 7, "ask": {"do": "set_params", "values": {"beta": 0.8}}}`.
The answer has the same `id`, and either `ok` or `error`. A stream message has two frames: the topic,
`report/FLOW/`, `decision/FLOW/`, `event/KIND` or `telemetry/KIND`, and one JSON object.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, Struct, field

from ccplane.base.errors import CcpError, Several

VERSION: Final = 1
"""Version of requests and answers."""

MAX_BYTES: Final = 4 << 20
"""Longest request [bytes]: sources are text, and text is short."""

_MAX: Final = (1 << 63) - 1
FlowNumber = Annotated[int, Meta(ge=0, le=_MAX)]
Word = Annotated[str, Meta(min_length=1, max_length=256)]
Text = Annotated[str, Meta(max_length=MAX_BYTES)]
Seconds = Annotated[float, Meta(ge=1, le=86_400)]
"""How long a trial lasts [s]."""
Value = bool | Annotated[int, Meta(ge=-_MAX, le=_MAX)] | float | Annotated[str, Meta(max_length=4096)]
"""A parameter's value, or text that spells it."""


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do"):
    """Base of what can be asked for.

    Attributes:
        changes: What it changes, if anything; such requests are written to the audit log.
    """

    changes: ClassVar[Literal["nothing", "settings", "versions"]] = "nothing"


class Status(Request, frozen=True, kw_only=True, tag="status"):
    """What runs, since when, and what it did."""


class Flows(Request, frozen=True, kw_only=True, tag="flows"):
    """All flows with their totals."""


class Flow(Request, frozen=True, kw_only=True, tag="flow"):
    """Everything that is known of one flow: parameters, state of its algorithm, telemetry."""

    flow: FlowNumber


class GetParams(Request, frozen=True, kw_only=True, tag="get_params"):
    """Parameters of all running algorithms, or of one; as they hold for all flows, or for one."""

    algorithm: Word | None = None
    flow: FlowNumber | None = None


class SetParams(Request, frozen=True, kw_only=True, tag="set_params"):
    """Set parameters: for all flows, one flow, those of an algorithm, or those that match a rule."""

    changes: ClassVar = "settings"

    values: Annotated[dict[Word, Value], Meta(min_length=1, max_length=256)]
    flow: FlowNumber | None = None
    algorithm: Word | None = None
    rule: Word | None = None


class GetSource(Request, frozen=True, kw_only=True, tag="source"):
    """The text that a running algorithm was made of."""

    algorithm: Word


class Load(Request, frozen=True, kw_only=True, tag="load"):
    """Load an algorithm from text: the next version of a running one, or one more.

    Attributes:
        source: The text.
        name: Under which name; else the one that it gives itself.
        class_name: Which class of it, if there are several.
        file: Where the text comes from, for messages.
        check: Find out whether it could be loaded, and leave everything as it is.
        canary: Put it on trial first, with these new flows: `5%`, `dport=5001`, or both.
        seconds: How long the trial lasts [s].
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
    """Read the file of a running algorithm again; all of them, if none is named.

    Attributes:
        algorithm: Which.
        canary: As of `Load`; for one algorithm.
        seconds: As of `Load`.
    """

    changes: ClassVar = "versions"

    algorithm: Word | None = None
    canary: Word | None = None
    seconds: Seconds | None = None


class EndCanary(Request, frozen=True, kw_only=True, tag="end_canary"):
    """End the trial of a new version.

    Attributes:
        algorithm: Of which algorithm.
        widen: It takes over; else it is taken back.
    """

    changes: ClassVar = "versions"

    algorithm: Word
    widen: bool


class Rollback(Request, frozen=True, kw_only=True, tag="rollback"):
    """Let the version before take over again; one that is on trial is taken back instead."""

    changes: ClassVar = "versions"

    algorithm: Word


class Switch(Request, frozen=True, kw_only=True, tag="switch"):
    """Give flows another running algorithm: all, one, those of an algorithm, or those that match a rule.

    Attributes:
        algorithm: The algorithm to be.
        flow: Of this flow only.
        before: Of flows of this algorithm only.
        rule: Of flows that match only.
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
    """Listen to one more kind of telemetry, or to one no longer."""

    kind: Word
    on: bool = True


class Events(Request, frozen=True, kw_only=True, tag="events"):
    """The last events; streams have those that come."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Stop(Request, frozen=True, kw_only=True, tag="stop"):
    """End the agent, as Ctrl-C does."""

    changes: ClassVar = "settings"


Ask = (
    Status
    | Flows
    | Flow
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
    | Stop
)
"""What can be asked for."""


class Envelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request on its way.

    Attributes:
        version: `VERSION`.
        id: Number that the answer will have.
        ask: What is asked for.
    """

    version: int = VERSION
    id: Annotated[int, Meta(ge=0, le=_MAX)] = 0
    ask: Ask


class Problem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong.

    Attributes:
        slug: Stable name for programs.
        what: What is wrong.
        where: Where; may be empty.
        why: Why; may be empty.
        fix: What to do; may be empty.
    """

    slug: str
    what: str
    where: str = ""
    why: str = ""
    fix: str = ""


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer on its way.

    Attributes:
        id: That of the request; 0 if that could not be read.
        ok: What was asked for.
        error: What is wrong instead; several problems at once, so that nobody has to fix them one by one.
    """

    id: int = field(default=0)
    ok: Any = None
    error: list[Problem] | None = None


def problems_of(error: CcpError) -> list[Problem]:
    """Return an error as it goes over the socket."""
    singles = error.errors if isinstance(error, Several) else (error,)
    return [
        Problem(slug=one.slug, what=one.message, where=one.where, why=one.why, fix=one.fix) for one in singles
    ]


def error_of(problems: list[Problem]) -> CcpError:
    """Return the error that came over the socket."""
    errors = [CcpError(one.slug, one.what, one.where, one.why, one.fix) for one in problems]
    return errors[0] if len(errors) == 1 else Several(errors)
