"""Parses R-TCP's parameters, for the command line and scenarios."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec

from ccp_algs.rtcp import Options
from ccplane.base.errors import Collector, ParamError
from ccplane.base.names import close_names


def options_of(values: Mapping[str, object]) -> Options:
    """Return the options with some values changed.

    Raises:
        ParamError: `param.unknown`, `param.wrong_type` or `param.out_of_range`.
        Several: If there are several problems.
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
                    "param.wrong_type",
                    f"`{value}` is not a valid value of {name}",
                    name,
                    str(error),
                    f"give a value of type {known[name]}",
                ) from None
    problems.finish()
    return msgspec.convert(dict(values), Options, strict=False)
