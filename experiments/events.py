"""Events of a scenario: changes during the run, as plain data."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from experiments.netlab.spec import Plain

Seconds = Annotated[float, Meta(ge=0)]
ParamValue = bool | int | float | str


class SetLink(Plain, frozen=True, tag_field="kind", tag="set_link"):
    """Change a link, such as its rate, loss or delay.

    Attributes:
        at_s: Time since the start of the run [s].
        link: `NAME>` (from a to b), `NAME<` (from b to a), or `NAME` for both directions.
        fields: Fields of `Direction` with their new values; null removes a field. Other fields keep their
            values.
    """

    at_s: Seconds
    link: str
    fields: dict[str, Any]


class SetRoute(Plain, frozen=True, tag_field="kind", tag="set_route"):
    """Change the route between two hosts.

    Attributes:
        at_s: Time since the start of the run [s].
        path: The nodes of the new route, from the first host to the last. Where several links connect two
            nodes, the name of the chosen link stands between them.
        both: Whether the opposite direction takes the same route in reverse.
    """

    at_s: Seconds
    path: tuple[str, ...]
    both: bool = True


class SetParam(Plain, frozen=True, tag_field="kind", tag="set_param"):
    """Set a parameter of an algorithm, for existing and future flows.

    Attributes:
        at_s: Time since the start of the run [s].
        flow: Set it for this flow. Give either this or `algorithm`.
        algorithm: Set it for all flows with this algorithm, named as in the flows.
        param: Name of the parameter.
        value: Its new value.
    """

    at_s: Seconds
    param: str
    value: ParamValue
    flow: str | None = None
    algorithm: str | None = None

    def __post_init__(self) -> None:
        if (self.flow is None) == (self.algorithm is None):
            raise ValueError("give either `flow` or `algorithm`")


class Edit(Plain, frozen=True, tag_field="kind", tag="edit"):
    """Edit an algorithm: its flows switch to the new version, as after `ccp load`.

    Attributes:
        at_s: Time since the start of the run [s].
        algorithm: The algorithm, named as in the flows.
        becomes: File with the new version.
    """

    at_s: Seconds
    algorithm: str
    becomes: str


Event = SetLink | SetRoute | SetParam | Edit
