"""From YAML to checked data; errors contain the path of the field and, where possible, a similar name.

Numbers are read as people write them: `12.5e6` is a number (YAML 1.1 requires `12.5e+6`). A key that occurs
twice in a mapping is an error instead of being overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import msgspec.inspect
import yaml

from ccplane.base.decoding import BAD_YAML
from ccplane.base.errors import Collector
from ccplane.base.names import close_names
from experiments.errors import ScenarioError

T = TypeVar("T")

MAX_DEPTH: Final = 64
"""Maximum levels of mappings and lists in a YAML text."""

_FLOAT: Final = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+")
_MESSAGE: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.*)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>.*)`")
_STEP: Final = re.compile(r"\.(?P<field>[^.\[]+)|\[(?P<index>\d+|\.\.\.)\]")


_SPECIAL_KEYS: Final = {"tag:yaml.org,2002:merge", "tag:yaml.org,2002:value"}


class _Loader(yaml.SafeLoader):
    """YAML with intuitive numbers, and without duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            is_special = key_node.tag in _SPECIAL_KEYS
            key = key_node.value if is_special else self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"duplicate key `{key}` in a mapping", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789"))


def parse_yaml(text: str, origin: str = "") -> Any:
    """Return the plain data of a YAML text.

    Raises:
        ScenarioError: `scenario.syntax`, with line and column.
    """
    try:
        value = yaml.load(text, _Loader)
        if _is_endless(value):
            raise ValueError(f"it nests deeper than {MAX_DEPTH} levels, or contains itself")
        return value
    except (yaml.YAMLError, *BAD_YAML) as error:
        mark = getattr(error, "problem_mark", None)
        place = (
            f"{origin or 'line'}{':' if origin else ' '}{mark.line + 1}:{mark.column + 1}" if mark else origin
        )
        raise ScenarioError(
            "scenario.syntax",
            "the text is not valid YAML",
            place,
            getattr(error, "problem", None) or str(error),
            "YAML needs `key: value` with a space after the colon, and spaces (not tabs) for indentation",
        ) from error


def _is_endless(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [one for outer in level for one in _parts(outer)]
        level = list({id(one): one for one in inner}.values())
    return bool(level)


def _parts(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        ScenarioError: `scenario.no_file`.
    """
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ScenarioError(
            "scenario.no_file",
            f"cannot read {path}",
            str(path),
            reason,
            "check the path; `ccp experiment examples` copies the scenarios that come with ccplane",
        ) from error


def to_yaml(value: Any) -> str:
    """Return the YAML of plain data or of a struct, fields in their order."""
    plain = msgspec.to_builtins(value, builtin_types=())
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110))


def full(value: Any) -> Any:
    """Return a struct as plain data, including fields with default values."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        plain = {name: full(getattr(value, name)) for name in value.__struct_fields__}
        return plain if config.tag_field is None else {config.tag_field: config.tag, **plain}
    if isinstance(value, list | tuple):
        return [full(one) for one in value]
    return {key: full(one) for key, one in value.items()} if isinstance(value, dict) else value


def refuse(raw: Any, field: str, kind: str, command: str, origin: str) -> None:
    """Refuse a file of another kind, recognised by a field, instead of reporting each of its fields.

    Raises:
        ScenarioError: `scenario.bad_field`; it names the command for that kind.
    """
    if isinstance(raw, Mapping) and field in raw:
        raise ScenarioError(
            "scenario.bad_field",
            f"this is a {kind}",
            origin,
            f"it has the field `{field}`",
            f"{command} {origin}",
        )


def convert(raw: Any, kind: type[T], origin: str = "", at: str = "") -> T:
    """Convert plain data to a struct.

    The fields of the struct, and the elements of lists in them, are checked one by one, so that all errors
    are reported.

    Raises:
        ScenarioError: `scenario.bad_field`; `where` names the field.
        Several: If there are several errors.
    """
    if isinstance(raw, Mapping):
        problems = Collector()
        fields = {field.name: field for field in msgspec.structs.fields(kind)}  # type: ignore[arg-type]
        for name in raw:
            with problems.check():
                if name not in fields:
                    raise _explain(f"Object contains unknown field `{name}`", raw, kind, origin, at)
        for name, field in fields.items():
            with problems.check():
                if name in raw:
                    _convert_parts(raw[name], field.type, origin, _join(at, name))
                elif field.required:
                    raise _explain(f"Object missing required field `{name}`", raw, kind, origin, at)
        problems.finish()
    converted: T = _convert(raw, kind, origin, at)
    return converted


def _convert_parts(raw: Any, kind: Any, origin: str, at: str) -> None:
    element = _element_of(kind)
    if element is None or not isinstance(raw, list | tuple):
        _convert(raw, kind, origin, at)
        return
    problems = Collector()
    for i, one in enumerate(raw):
        with problems.check():
            _convert(one, element, origin, f"{at}[{i}]")
    problems.finish()


def _convert(raw: Any, kind: Any, origin: str, at: str) -> Any:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise _explain(str(error), raw, kind, origin, at) from error


def _explain(message: str, raw: Any, kind: Any, origin: str, at: str) -> ScenarioError:
    found = _MESSAGE.fullmatch(message)
    what, inner = (found["what"], found["path"] or "") if found else (message, "")
    path, fix = _join(at, inner), ""
    if unknown := _UNKNOWN.fullmatch(what):
        path = _join(path, unknown["name"])
        sentence = f"unknown field `{unknown['name']}`"
        what = ""
        info, _ = _at(msgspec.inspect.type_info(kind), inner, raw)
        fix = closest(unknown["name"], [field.encode_name for field in info.fields])
    elif missing := _MISSING.fullmatch(what):
        path = _join(path, missing["name"])
        sentence, what = f"the field `{missing['name']}` is missing", ""
    else:
        sentence = f"`{path.rpartition('.')[2] or 'the document'}` has an invalid value"
        if what.startswith("Invalid value '") and (tags := _tags(_parent(kind, inner, raw))):
            fix = close_names(what.split("'")[1], tags, "kind")
    where = f"{origin}: {path}" if origin and path else origin or path
    return ScenarioError(
        "scenario.bad_field", sentence, where, what, fix or "docs/scenarios.md lists all fields"
    )


def closest(name: str, known: list[str]) -> str:
    """Return the `fix` sentence for an unknown field: `rate` suggests `rate_bytes_per_s`."""
    longer = [one for one in known if one.startswith(f"{name}_")]
    return f"did you mean `{longer[0]}`?" if len(longer) == 1 else close_names(name, known, "field")


def _join(at: str, inner: str) -> str:
    inner = inner.lstrip(".")
    if not at or not inner:
        return at + inner
    return at + inner if inner.startswith("[") else f"{at}.{inner}"


def _element_of(kind: Any) -> Any:
    """Return the type of the elements of a `tuple[X, ...]`; None for other types."""
    if hasattr(kind, "__metadata__"):  # Annotated
        kind = kind.__origin__
    args: tuple[Any, ...] = getattr(kind, "__args__", ())
    return args[0] if getattr(kind, "__origin__", None) is tuple and args[1:] == (...,) else None


def _parent(kind: Any, path: str, raw: Any) -> Any:
    """Return the type that contains a path's last step, with unions unresolved."""
    info = msgspec.inspect.type_info(kind)
    steps = list(_STEP.finditer(path))
    for step in steps[:-1]:
        info, raw = _step(_decided(info, raw), step, raw)
    return info


def _tags(info: Any) -> list[str]:
    kinds = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    return [
        str(one.tag) for one in kinds if isinstance(one, msgspec.inspect.StructType) and one.tag is not None
    ]


def _at(info: Any, path: str, raw: Any) -> tuple[Any, Any]:
    """Return type and data at a path, with unions resolved by their tags."""
    info = _decided(info, raw)
    for step in _STEP.finditer(path):
        info, raw = _step(info, step, raw)
        info = _decided(info, raw)
    return info, raw


def _step(info: Any, step: re.Match[str], raw: Any) -> tuple[Any, Any]:
    if step["field"] is not None:
        by_name = {field.encode_name: field.type for field in info.fields}
        return by_name[step["field"]], raw[step["field"]]
    if step["index"] == "...":
        return info.value_type, next(iter(raw.values()))
    return info.item_type, raw[int(step["index"])]


def _decided(info: Any, raw: Any) -> Any:
    while isinstance(info, msgspec.inspect.Metadata):
        info = info.type
    if isinstance(info, msgspec.inspect.UnionType):
        structs: list[Any] = [one for one in info.types if isinstance(one, msgspec.inspect.StructType)]
        tagged = [one for one in structs if one.tag_field and raw.get(one.tag_field) == one.tag]
        return (tagged or structs or [info])[0]
    return info
