"""Writes the descriptions in native/ccp-bpf/src/bpf/intf.h into Python and the documents (`make facts`).

The comments of intf.h describe primitives, totals of flows, the head of reports, and counters. The generated
text is between marks in `FILES`; `--check` only reports files that are not up to date.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from pathlib import Path
from typing import Final, NamedTuple

from ccplane.base import _native

WIDTH: Final = 110
ROOT: Final = Path(__file__).parents[1]
FILES: Final = (
    "ccp_algs/fold/primitives.py",
    "ccp_algs/fold/program.py",
    "ccplane/base/_native.pyi",
    "ccplane/base/flows.py",
    "docs/fold-programs.md",
)
"""Read as text, not imported, because they may be out of date."""
BLOCK: Final = re.compile(
    r"(?P<begin>^ *(?:# |<!-- )facts: (?P<name>\w+)[^\n]*\n).*?(?P<end>^ *(?:# |<!-- )end of facts)",
    re.DOTALL | re.MULTILINE,
)
DEFAULTS: Final = {"fallback": "True", "fallback_cause": '"new"'}
"""Defaults of totals; the others are 0."""


class Fact(NamedTuple):
    """A row of `_native.facts()`."""

    name: str
    kind: str
    unit: str
    tag: str
    doc: str


def facts(subject: str) -> list[Fact]:
    """Return the descriptions of a subject."""
    return [Fact(*row) for row in _native.facts()[subject]]


def _docstring(text: str, indent: int = 4) -> str:
    one = f'"""{text}"""'
    if indent + len(one) <= WIDTH:
        return one
    lines = textwrap.wrap(text, WIDTH - indent - 3, break_on_hyphens=False)
    return '"""' + f"\n{' ' * indent}".join([*lines, '"""'])


def _python_type(fact: Fact) -> str:
    return {"bool": "bool", "&'static str": "str"}.get(fact.kind, "int")


def _total(fact: Fact) -> str:
    doc = fact.doc
    if fact.tag == "ccp_fallback_cause":
        doc += " " + " ".join(f"`{cause.name}`: {_lower(cause.doc)}" for cause in facts("fallback_causes"))
    default = "" if fact.name == "flow_id" else f" = {DEFAULTS.get(fact.name, 0)}"
    return f"    {fact.name}: {_python_type(fact)}{default}\n    {_docstring(doc)}\n"


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def _head() -> list[Fact]:
    columns = [fact for fact in facts("report_head") if fact.name != "flags"]
    flags = [flag._replace(kind="bool") for flag in facts("report_flags")]
    return [
        *columns,
        Fact("program", "&'static str", "", "", "Name of the program that made the report."),
        *flags,
    ]


def _property(fact: Fact) -> str:
    head = f"    @property\n    def {fact.name}(self) -> {_python_type(fact)}:\n"
    return f"{head}        {_docstring(fact.doc, 8)}\n        ...\n"


def _primitive(fact: Fact) -> str:
    prefix, name = fact.name.split(".")
    kind = "PrimitiveFlag" if fact.tag == "flag" else "Primitive"
    option = f", {fact.tag}=True" if fact.tag not in ("", "flag") else ""
    doc = fact.doc
    if fact.tag == "huge":
        doc = doc.replace("all ones", "INFINITY")
    if fact.tag == "sampled":
        note = " Not every ACK has a sample; statements that read this field skip ACKs without one."
        doc = doc.split(";")[0] + "." + note
    return f'    {name} = {kind}("{prefix}.{name}"{option})\n    {_docstring(doc)}\n'


def _table(rows: list[Fact]) -> str:
    lines = ["", "| primitive | unit | meaning |", "| --- | --- | --- |"]
    for fact in rows:
        unit = fact.unit or ("flag" if fact.tag == "flag" else "number")
        meaning = re.sub(r" \[[^]]*\]", "", fact.doc).removesuffix(".")
        lines.append(f"| `{fact.name}` | {unit} | {meaning} |")
    return "\n".join([*lines, "", ""])


def parts() -> dict[str, str]:
    """Return the text between the marks, by their name."""
    known = facts("primitives")
    of = {
        prefix: [fact for fact in known if fact.name.startswith(prefix)] for prefix in ("Ack", "Flow", "Int")
    }
    n_of_ccp = 1 + next(i for i, fact in enumerate(known) if fact.name == "Flow.was_timeout")
    own = [fact for fact in known[n_of_ccp:] if fact not in of["Int"]]
    columns = "".join(
        f'    ("{fact.name}", "u{int(fact.kind[1:]) // 8}"),\n' for fact in facts("report_head")
    )
    counters = "".join(f'    "{fact.name}": "{fact.doc}",\n' for fact in facts("counters"))
    return {
        "totals": "".join(map(_total, facts("totals"))),
        "report_head": "\n".join(map(_property, _head())) + "\n",
        "report_stub": "".join(
            f"    @property\n    def {fact.name}(self) -> {_python_type(fact)}: ...\n" for fact in _head()
        ),
        "report_attributes": "".join(f"    {fact.name}: {_python_type(fact)}\n" for fact in _head()),
        "report_columns": columns,
        "counters": counters,
        **{name.lower(): "".join(map(_primitive, rows)) for name, rows in of.items()},
        "ccp": _table(known[:n_of_ccp]),
        "ccplane": _table(own),
        "path": _table(of["Int"]),
    }


def written(text: str) -> str:
    """Return a file with the generated text between its marks."""
    made = parts()
    return BLOCK.sub(lambda block: f"{block['begin']}{made[block['name']]}{block['end']}", text)


def stale() -> list[Path]:
    """Return the files that are not up to date."""
    files = [ROOT / name for name in FILES]
    return [path for path in files if written(path.read_text()) != path.read_text()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only report files that are not up to date")
    is_check = parser.parse_args().check
    for path in stale():
        print(
            f"{path.name} is not up to date with intf.h: run `make facts`"
            if is_check
            else f"wrote {path.name}"
        )
        if is_check:
            sys.exit(1)
        path.write_text(written(path.read_text()))
