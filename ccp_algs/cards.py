'''Cards: what an algorithm is for, what it is not for, and the evidence, from the docstring of its class.

    class FlexCubic(Algorithm):
        """CUBIC that reacts to a loss only if the RTT shows a queue.

        Use it where packets are lost at random.
        Do not use it with shallow buffers. A full queue of less than one BDP never doubles the RTT.
        Evidence: 5 of 6 claims tested on real sockets hold (docs/papers/flex-cubic.md).
        More: docs/flex-cubic.md
        """

`ccp algorithms NAME` prints the card, and `make commands` writes the cards into the documents. The first
sentence of an entry also has to fit into a table. Entries that a class lacks are those of its base classes.
'''

from __future__ import annotations

import inspect
import re
from typing import Final, NamedTuple

_ENTRY: Final = re.compile(
    r"^(Use it|Do not use it|Evidence:|More:) +(.*?)(?=^\S|\Z)", re.DOTALL | re.MULTILINE
)


class Card(NamedTuple):
    """The facts by which a user chooses an algorithm; empty if the class does not state them.

    Attributes:
        overview: What the algorithm does, in a sentence.
        use: Continues "Use it".
        avoid: Continues "Do not use it".
        evidence: What was measured, with the page of the results in parentheses.
        more: Page of the algorithm, relative to the repository.
    """

    overview: str
    use: str
    avoid: str
    evidence: str
    more: str


def card_of(algorithm: type) -> Card:
    """Return the card of an algorithm."""
    entries: dict[str, str] = {}
    for cls in reversed(algorithm.__mro__):
        found = _ENTRY.findall(inspect.cleandoc(cls.__dict__.get("__doc__") or ""))
        entries |= {heading: " ".join(text.split()) for heading, text in found}
    overview = (inspect.getdoc(algorithm) or "").partition("\n")[0]
    return Card(
        overview, *(entries.get(one, "") for one in ("Use it", "Do not use it", "Evidence:", "More:"))
    )
