"""Events of a scenario: what changes while it runs, as plain data."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from experiments.netlab.spec import Plain

Seconds = Annotated[float, Meta(ge=0)]
ParamValue = bool | int | float | str


class SetLink(Plain, frozen=True, tag_field="kind", tag="set_link"):
    """A link becomes another one: its rate rises, its loss goes, its path gets longer.

    Attributes:
        at_s: When, since the start of the run [s].
        link: `NAME>` (from a to b), `NAME<` (back), or `NAME` for both.
        fields: Fields of `Direction` that change, with their new values; null takes one away. The others
            stay as they are.
    """

    at_s: Seconds
    link: str
    fields: dict[str, Any]


class SetRoute(Plain, frozen=True, tag_field="kind", tag="set_route"):
    """The way between two hosts changes.

    Attributes:
        at_s: When, since the start of the run [s].
        path: The nodes of the new way, from the first host to the last. Where several links connect two
            nodes, the name of one stands between them.
        both: Whether the way back is the same one in reverse.
    """

    at_s: Seconds
    path: tuple[str, ...]
    both: bool = True


class SetParam(Plain, frozen=True, tag_field="kind", tag="set_param"):
    """A parameter of an algorithm changes, for flows that run and for those to come.

    Attributes:
        at_s: When, since the start of the run [s].
        flow: Of this flow only.
        algorithm: Of all flows that have this algorithm, named as the flows name it. One of the two is given.
        param: Which parameter.
        value: Its new value.
    """

    at_s: Seconds
    param: str
    value: ParamValue
    flow: str | None = None
    algorithm: str | None = None

    def __post_init__(self) -> None:
        """Refuse both targets and none."""
        if (self.flow is None) == (self.algorithm is None):
            raise ValueError("give either `flow` or `algorithm`")


class Edit(Plain, frozen=True, tag_field="kind", tag="edit"):
    """An algorithm is edited: its flows go on with another version, as after `ccp load`.

    Attributes:
        at_s: When, since the start of the run [s].
        algorithm: Which, named as the flows name it.
        becomes: File with the new version.
    """

    at_s: Seconds
    algorithm: str
    becomes: str


Event = SetLink | SetRoute | SetParam | Edit
