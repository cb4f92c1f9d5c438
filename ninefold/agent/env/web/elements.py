"""Level 0: a page of a few elements, checked by a parser in place of a browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from random import Random

from ninefold.agent.env.names import GOODS

PATH = "page.html"
TAGS = ("h1", "h2", "p", "b", "button")
_AROUND = ("html", "head", "body", "title", "meta")
"""What a page may have besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """Elements side by side: (tag, text) of each."""

    parts: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The instruction."""
        return f"Write {PATH} : " + " , ".join(f"{tag} {text}" for tag, text in self.parts) + " ."

    @property
    def html(self) -> str:
        return "".join(f"<{tag}>{text}</{tag}>" for tag, text in self.parts)

    @property
    def key(self) -> str:
        """Content key."""
        return f"web/{self.parts}"

    @staticmethod
    def draw(rng: Random) -> Elements:
        """One to three elements, each of another kind and with another text."""
        count = rng.randint(1, 3)
        return Elements(parts=tuple(zip(rng.sample(TAGS, count), rng.sample(GOODS, count))))


def wrong(html: str, parts: Sequence[tuple[str, str]]) -> str | None:
    """Why a page does not show exactly these elements, in this order; None where it does."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    if reader.problem is not None:
        return reader.problem
    if reader.open:
        return f"<{reader.open[-1]}> is not closed"
    found = [(tag, " ".join(text.split())) for tag, text in reader.found]
    if found != list(parts):
        return f"the page shows {str(found)[:200]}, not {list(parts)}"
    return None


class _Reader(HTMLParser):
    """Collects what a page shows; anything that might hide it, or show more, is a problem."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.problem: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in (*TAGS, *_AROUND):
            self._refuse(f"<{tag}> was not asked for")
        if attrs and tag not in ("html", "meta"):
            self._refuse(f"<{tag}> has attributes, which were not asked for")
        inside = [outer for outer in self.open if outer in TAGS or (tag in TAGS and outer in ("head", "title"))]
        if inside:
            self._refuse(f"<{tag}> stands inside <{inside[-1]}>")
        if tag in TAGS:
            self.found.append((tag, ""))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self._refuse(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        inner = self.open[-1] if self.open else ""
        if inner in TAGS:
            tag, text = self.found[-1]
            self.found[-1] = (tag, text + data)
        elif data.strip() and inner != "title":
            self._refuse(f"{data.strip()[:40]!r} stands outside the elements")

    def _refuse(self, problem: str) -> None:
        self.problem = self.problem or problem
