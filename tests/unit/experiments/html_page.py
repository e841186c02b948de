"""HTML as a parser reads it."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """The elements of a page in order, and the text inside those with an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.words: list[str] = []
        self._inside: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if place := dict(attrs).get("id"):
            self.texts[place] = ""
            self._inside.append((tag, place))

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1][0] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self._inside:
            self.texts[self._inside[-1][1]] += data

    def all(self, tag: str, name: str = "") -> list[dict[str, str | None]]:
        named = [of for found, of in self.elements if found == tag]
        return [of for of in named if not name or name in (of.get("class") or "").split()]
