"""Remake the two text excerpts that the corpus ships because no locked package carries their domain.

web        HTML pages of Debian's `python3.11-doc` (PSF licence), rendered to text
knowledge  glosses of Debian's `wordnet-base` (WordNet 3.0 licence), one entry a line

Usage: python scripts/make_excerpts.py FOLDER, where FOLDER holds both packages unpacked (`apt-get download`, `dpkg -x`).
"""

from __future__ import annotations

import gzip
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

OUT = Path(__file__).parents[1] / "ninefold" / "data" / "corpus" / "excerpts"
PAGES = ("tutorial/*.html", "howto/*.html", "faq/*.html", "library/*.html")
PAGE_CHARACTERS = 12_000
WEB_CHARACTERS = 900_000
KNOWLEDGE_CHARACTERS = 900_000


class Text(HTMLParser):
    """Text of the page body, without scripts, navigation and permalinks."""

    SKIPPED = frozenset({"script", "style", "nav", "head", "footer"})
    BLOCKS = frozenset({"p", "li", "dt", "dd", "h1", "h2", "h3", "h4", "pre", "tr", "div", "section"})

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.skipping = 0
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.skipping += tag in self.SKIPPED
        self.inside |= ("role", "main") in attrs
        if tag in self.BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self.skipping -= tag in self.SKIPPED

    def handle_data(self, data: str) -> None:
        if self.inside and not self.skipping:
            self.parts.append(data)

    def text(self) -> str:
        text = "".join(self.parts).replace("¶", "")
        return re.sub(r"\n\s*\n+", "\n\n", re.sub(r"[ \t]+", " ", text)).strip()


def web(root: Path) -> list[str]:
    pages = sorted(p for pattern in PAGES for p in (root / "usr/share/doc/python3.11/html").glob(pattern))
    documents: list[str] = []
    for page in pages:
        parser = Text()
        parser.feed(page.read_text(encoding="utf-8"))
        documents.append(parser.text()[:PAGE_CHARACTERS])
    return documents


def knowledge(root: Path) -> list[str]:
    entries: list[str] = []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (root / f"usr/share/wordnet/data.{part}").read_text(encoding="utf-8").splitlines():
            if line.startswith("  "):
                continue
            fields, _, gloss = line.partition(" | ")
            words = fields.split()
            count = int(words[3], 16)
            lemmas = [words[4 + 2 * i].replace("_", " ") for i in range(count)]
            entries.append(f"{', '.join(lemmas)} ({part}): {gloss.strip()}")
    step = max(1, sum(map(len, entries)) // KNOWLEDGE_CHARACTERS + 1)
    kept = entries[::step]
    return ["\n".join(kept[i : i + 12]) for i in range(0, len(kept), 12)]


def write(name: str, documents: list[str], limit: int) -> None:
    kept: list[str] = []
    size = 0
    for document in documents:
        if size + len(document) > limit:
            continue
        kept.append(document.replace("\f", " "))
        size += len(document)
    with (OUT / f"{name}.txt.gz").open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write("\f".join(kept).encode())
    print(f"{name}: {len(kept)} documents, {size} characters, {(OUT / f'{name}.txt.gz').stat().st_size} bytes")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    OUT.mkdir(parents=True, exist_ok=True)
    write("web", web(folder), WEB_CHARACTERS)
    write("knowledge", knowledge(folder), KNOWLEDGE_CHARACTERS)
