"""Words and patterns that readers had to read twice are in no text that users read, nor in names."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from scripts import sentences

ROOT = Path(__file__).parents[2]

INSTEAD: Final = {
    "laws?": "fallback, or what the rule is",
    "letters?": "update (to a flow), message (to an extension)",
    "tell|tells|told|telling": "send, report, publish, emit, log; distinguish",
    "hear|hears|heard|hearing": "receive",
    "breath|leavings|lottery|lots?": "keepalive, artifacts, random assignment",
    "beside|besides": "next to, alongside, compared with, in addition to",
    r"behind (?:\w+ )?(?:loss(?:es)?|reductions?|recovery|timeouts?|reports?|starts?|updates?)": "after",
    "anew|for good|in vain|by hand": "again, permanently, unsuccessfully, manually",
    "least|greatest": "minimum, maximum",
    "sent again": "retransmitted",
    "octets?": "bytes",
    "so (?:many|long|often)": "N, a duration, a number",
    "nobody|somebody|everybody": "the name of the thing: agent, socket, flow, user, process",
    "ours|theirs": "ccplane's, the kernel's, third-party",
    "planes?": "agent, agent loop",
    "at once": "immediately, simultaneously",
    "go on|goes on|going on|went on": "continue, resume, keep running",
    "not any more": "the present: a reference has no history",
    "(?<!there )(?:is|are|was|were) none": "is not a ...",
    "those of it|of it that": "the noun, repeated",
}
"""What is not written, as a regular expression of whole words -> what to write instead."""

FINE: Final = re.compile(
    "at least|control plane|data plane"
    "|(?:Mathis'?s?|Little's|square-root|control|power) laws?|laws? of Mathis"
    "|letters,? (?:and )?digits"
    "|(?:lower-case|Greek|Electronics) letters|the first a letter|user nobody"
    "|as (?:long|often) as|so long as",
    re.IGNORECASE,
)
"""What looks like it, and is plain."""

SHAPES: Final = {
    r"^(?:What|Who|Whoever|Whatever)\b(?!.*\?)": "put the noun first",
    r", too\b(?! [a-z]+,)(?=[.,;:)]|$)": "`also` before the verb, or nothing",
}
"""What a sentence does not look like, as a regular expression -> what to do instead."""

QUOTED: Final = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”")
"""Code and quotations: not ccplane's words."""


def complaints(found: Iterator[sentences.Sentence]) -> list[str]:
    bad = []
    for kind, place, text in sorted(set(found)):
        plain = FINE.sub(" ", QUOTED.sub(" ", text))
        for pattern, instead in INSTEAD.items():
            if word := re.search(
                rf"(?<![\w-])(?:{pattern})(?![\w-])", plain, 0 if "none" in pattern else re.IGNORECASE
            ):
                bad.append(f"{place}: `{word[0]}`: {instead}: {text}")
        for pattern, instead in SHAPES.items():
            if kind != "docstring" and re.search(pattern, plain):  # "What to measure." is one's first line
                bad.append(f"{place}: {instead}: {text}")
    return bad


@pytest.mark.parametrize(
    "kind", [sentences.documents, sentences.help_texts, sentences.errors, sentences.docstrings]
)
def test_what_users_read_is_plain(kind: Callable[[], Iterator[sentences.Sentence]]) -> None:
    found = complaints(kind())
    assert not found, f"{len(found)} sentences, see CONTRIBUTING.md:\n" + "\n".join(found[:40])


def test_the_check_finds_each_pattern() -> None:
    texts = [
        "the fallback law has the flow",
        "a letter to the flow",
        "it is told of losses",
        "the agent hears it",
        "the least RTT",
        "it is sent again",
        "nobody answers",
        "all at once",
        "it goes on",
        "Who is not bounded is free.",
        "the reports, too",
        "by hand",
    ]
    assert len(complaints(sentences.Sentence("error", str(n), text) for n, text in enumerate(texts))) == len(
        texts
    )
    plain = [
        "at least one RTT",
        "the control plane",
        "hosts behind a NAT",
        "too late, too early",
        "code `told`",
    ]
    assert complaints(sentences.Sentence("error", "", text) for text in plain) == []


# --- names ---

PARTS: Final = frozenset(
    [
        "law",
        "letter",
        "letters",
        "tell",
        "tells",
        "told",
        "telling",
        "hear",
        "hears",
        "heard",
        "hearing",
        "breath",
        "leavings",
        "lottery",
        "beside",
        "anew",
        "greatest",
        "octet",
        "octets",
        "nobody",
        "somebody",
        "ours",
        "theirs",
        "plane",
    ]
)
NAMES: Final[dict[str, str]] = {
    "TestLawsOnTheKernel": "the equations of Mathis and others",
    "nobody": "the user of that name",
    "NOBODY": "the user of that name",
    "_NOBODY": "the user of that name",
    "it_signals_at_the_times_of_its_control_law": "CoDel's control law, RFC 8289",
    "most_common": "a method of collections.Counter",
    "octets": "a method of Rust's IP addresses",
    "tcpEStatsPerfOctetsRetrans": "RFC 4898",
    "tcpEStatsPerfDataOctetsOut": "RFC 4898",
}
"""Names that have such a part -> why."""

TOKENS: Final = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*', re.DOTALL)
SPLIT: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z][a-z0-9]*")


def names() -> Iterator[tuple[str, str]]:
    """Yield the names in the sources, in code, with the first file that has each."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    seen: dict[str, str] = defaultdict(str)
    for path in listed.stdout.splitlines():
        file = ROOT / path
        if not file.exists() or "uplot" in path:
            continue
        for part in Path(path).parts:
            seen.setdefault(part.partition(".")[0], path)
        if path.endswith((".py", ".pyi")):
            for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
                if token.type == tokenize.NAME:
                    seen.setdefault(token.string, path)
        elif path.endswith((".rs", ".c", ".h", ".js")):
            for token in TOKENS.findall(file.read_text(encoding="utf-8")):
                if token[0] not in '/"':
                    seen.setdefault(token, path)
    yield from seen.items()


def has_such_a_part(name: str) -> bool:
    parts = [part.lower() for part in SPLIT.findall(name)]
    return bool(PARTS.intersection(parts)) or any(
        word in ("least", "most") and before != "at"
        for before, word in zip(["", *parts], parts, strict=False)
        if len(parts) > 1
    )


def test_no_name_has_a_word_that_was_given_up() -> None:
    found = {name: path for name, path in names() if has_such_a_part(name) and name not in NAMES}
    assert not found, f"{len(found)} names: {dict(sorted(found.items())[:60])}"
