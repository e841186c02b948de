"""Parameters of R-TCP, as the command line and scenarios spell them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec

from ccp_algs.rtcp import Options
from ccplane.base.errors import Collector, ParamError
from ccplane.base.names import close_names


def options_of(values: Mapping[str, object]) -> Options:
    """Return the options with other values for some.

    Args:
        values: Value by name; text is parsed.

    Raises:
        ParamError: `param.unknown`, `param.wrong_type` or `param.out_of_range`.
        Several: If more is wrong.
    """
    known = {one.name: one.type for one in dataclasses.fields(Options)}
    problems = Collector()
    for name, value in values.items():
        with problems.check():
            if name not in known:
                raise ParamError(
                    "param.unknown",
                    f"R-TCP has no parameter `{name}`",
                    name,
                    fix=close_names(name, list(known), "parameter"),
                )
            try:
                msgspec.convert({name: value}, Options, strict=False)
            except msgspec.ValidationError as error:
                raise ParamError(
                    "param.wrong_type", f"{name} cannot be {value}", name, str(error), f"give a {known[name]}"
                ) from None
    problems.finish()
    return msgspec.convert(dict(values), Options, strict=False)
