"""What is played: the path, the flows and their competitor, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import Meta

from ccplane.base.errors import UsageError
from ccplane.base.names import close_names
from experiments.netlab.spec import Direction, PositiveFloat
from experiments.netlab.spec import Topology as Network
from experiments.runs import one_path

MAX_FLOWS: Final = 8
"""Maximum flows of the algorithm: more curves are hard to distinguish."""

PATH_FIELDS: Final = ("rate_bytes_per_s", "rtt_us", "loss", "buffer_bdp")
"""Fields that can change while flows run."""


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A path and the flows over it; the attributes are the JSON fields of messages and links.

    Attributes:
        rate_bytes_per_s: Rate of the path [bytes/s].
        rtt_us: RTT of the path without queueing [us].
        loss: Random packet loss towards the receivers, as a fraction.
        buffer_bdp: Buffer of the path, in bandwidth-delay products.
        flows: Number of flows of the algorithm.
        against: Algorithm of one more flow: `kernel/NAME`, or an algorithm of ccplane; None for no such flow.
        seed: Seed of the losses.
        duration_s: Duration of the flows, in time of the path [s]; None for no end.
    """

    rate_bytes_per_s: Annotated[float, Meta(ge=1000, le=1.25e9)] = 12.5e6
    rtt_us: Annotated[int, Meta(ge=10, le=10_000_000)] = 50_000
    loss: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    buffer_bdp: Annotated[float, Meta(ge=0.001, le=1000)] = 1.0
    flows: Annotated[int, Meta(ge=1, le=MAX_FLOWS)] = 1
    against: Annotated[str, Meta(min_length=1)] | None = None
    seed: Annotated[int, Meta(ge=0, lt=1 << 53)] = 1
    duration_s: PositiveFloat | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Return the setting that JSON data describes; missing fields have their defaults.

        Raises:
            UsageError: `play.bad_setting`, with the field.
        """
        try:
            return msgspec.convert(dict(data), cls)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at `$")
            unknown = message.partition("unknown field `")[2].rstrip("`")
            raise UsageError(
                "play.bad_setting",
                f"invalid setting: {message[:1].lower()}{message[1:]}",
                where=path.strip("`.") or unknown,
                fix=close_names(unknown, cls.__struct_fields__, "field")
                if unknown
                else "change the value of this field",
            ) from None

    def changed_path(self, fields: Mapping[str, Any]) -> Self:
        """Return the setting with a changed path.

        Raises:
            UsageError: `play.bad_setting`, with the field.
        """
        unknown = set(fields) - set(PATH_FIELDS)
        if unknown:
            raise UsageError(
                "play.bad_setting",
                f"{', '.join(sorted(unknown))} cannot change while flows run",
                fix=f"change {', '.join(PATH_FIELDS)}, or restart",
            )
        return self.of(self.as_dict() | dict(fields))

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON data."""
        return msgspec.structs.asdict(self)

    @property
    def total_flows(self) -> int:
        """Number of flows, the competitor included."""
        return self.flows + (self.against is not None)

    @property
    def path(self) -> tuple[float, float, float, float]:
        """Rate [bytes/s], RTT [us], buffer [BDP] and loss of the path, as `one_path` takes them."""
        return self.rate_bytes_per_s, self.rtt_us, self.buffer_bdp, self.loss

    def network(self) -> Network:
        """Return the network of all flows."""
        path: Direction = one_path.direction(*self.path)
        return one_path.network(self.total_flows, path).expanded()

    def path_text(self) -> str:
        """Return the path in words."""
        return (
            f"{self.rate_bytes_per_s / 125_000:.4g} Mbit/s, {self.rtt_us / 1000:.4g} ms,"
            f" buffer {self.buffer_bdp:.3g} BDP, loss {100 * self.loss:.3g}%"
        )


def flow_names(setting: Setting, name: str) -> list[str]:
    """Return the names of all flows of a setting, for an algorithm of this name."""
    own = [name] if setting.flows == 1 else [f"{name} {number}" for number in range(1, setting.flows + 1)]
    if setting.against is None:
        return own
    return [*own, setting.against if setting.against != name else f"{name} (rival)"]
