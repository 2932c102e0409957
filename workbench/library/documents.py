"""The documents of `docs/kernels`, and `docs/method.md`, as HTML."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from html import unescape
from itertools import chain
from pathlib import Path

from django.conf import settings
from django.urls import reverse
from django.utils.html import strip_tags
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from markdown_it import MarkdownIt
from markdown_it.token import Token

FOLDER = Path(settings.BASE_DIR) / "docs" / "kernels"
METHOD = Path(settings.BASE_DIR) / "docs" / "method.md"
PAGE_OF = re.compile(r"(?:kernels/)?([a-z0-9-]+)\.md(#[\w-]*)?")
METHOD_OF = re.compile(r"(?:\.\./)?method\.md(#[\w-]*)?")
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
"""Raw HTML in a document is escaped, and addresses with schemes such as javascript: do not become links."""
WORD = re.compile(r'<(strong|em|h2|h3) id="([^"]+)">')
END = re.compile(r"</p>|</li>|<[uo]l>|<table|<strong id=[^<]*</strong>(?=:| =| \()")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
"""Says where a table comes from (`benchmarks/figures.py`)."""


@dataclass(frozen=True)
class LibraryPage:
    """One document: its title, and the HTML of what follows it."""

    title: str
    html: SafeString

    @property
    def contents(self) -> list[tuple[str, str]]:
        """(id, text) of each heading."""
        return self._named("h2|h3")

    @property
    def words(self) -> list[tuple[str, str]]:
        """(id, text) of each word that is defined here, by the alphabet."""
        return sorted(self._named("strong"), key=lambda word: word[1].lower())

    @cached_property
    def meanings(self) -> dict[str, str]:
        """What each id of a word or a heading says: its text up to the next word, list or block, without tags."""
        meanings = {}
        for word in WORD.finditer(self.html):
            tag, name, text = word[1], word[2], self.html[word.end() :]
            if tag in ("h2", "h3"):
                text = re.sub(r"^\s*(<[^>]+>\s*)+", "", text.partition(f"</{tag}>")[2])
            meanings[name] = unescape(strip_tags(END.split(text, maxsplit=1)[0])).strip()
        return meanings

    def _named(self, tags: str) -> list[tuple[str, str]]:
        tagged = re.findall(rf'<({tags}) id="([^"]+)">(.*?)</\1>', self.html)
        return [(name, unescape(strip_tags(text))) for _, name, text in tagged]


def names() -> list[str]:
    """The documents there are, without their suffix."""
    return sorted(path.stem for path in FOLDER.glob("*.md"))


@cache
def page(name: str) -> LibraryPage:
    """The document `name`. Raises KeyError when there is none."""
    if name not in names():
        raise KeyError(name)
    return _page(FOLDER / f"{name}.md")


@cache
def method() -> LibraryPage:
    """What each word and figure on the pages means: `docs/method.md`. Every term has an id of its name."""
    return _page(METHOD)


def _page(path: Path) -> LibraryPage:
    heading, _, text = path.read_text("utf-8").partition("\n")
    return LibraryPage(heading.removeprefix("# "), rendered(text))


def rendered(text: str) -> SafeString:
    """Markdown as HTML, without comments: links lead to pages that are served here, or become plain text.

    A heading has its words as an id; else the first term in bold that has them, where it is defined; else in italics.
    """
    named: dict[str, list[tuple[Token, str]]] = {"heading_open": [], "strong_open": [], "em_open": []}
    tokens = MARKDOWN.parse(COMMENT.sub("", text))
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "table_open":
            token.attrSet("class", "table")
        elif token.type == "inline" and token.children is not None:
            token.children = _reachable(token.children)
            if before and before.type == "heading_open":
                named[before.type].append((before, token.content))
            for at, child in enumerate(token.children):
                if child.type in named:
                    named[child.type].append((child, token.children[at + 1].content))
    _name(chain.from_iterable(named.values()))
    html = MARKDOWN.renderer.render(tokens, MARKDOWN.options, {})
    html = html.replace("<table", '<div class="table-wrap" tabindex="0"><table').replace("</table>", "</table></div>")
    html = html.replace("<pre>", '<pre tabindex="0">')
    return mark_safe(html)  # the renderer escapes all text, and the documents are our own


def _name(named: Iterable[tuple[Token, str]]) -> None:
    """Gives each token the id of its words, unless an earlier one has it."""
    ids: set[str] = set()
    for token, words in named:
        name = slugify(words)
        if name and name not in ids:
            ids.add(name)
            token.attrSet("id", name)


def _reachable(children: list[Token]) -> list[Token]:
    """The tokens of a line. Links to served pages get their address; other links are removed, their text stays."""
    tokens, open_links = [], []
    for token in children:
        if token.type == "link_open":
            address = _address(str(token.attrGet("href")))
            open_links.append(bool(address))
            token.attrSet("href", address)
        keep = open_links.pop() if token.type == "link_close" else token.type != "link_open" or open_links[-1]
        tokens += [token] if keep else []
    return tokens


def _address(target: str) -> str:
    """The address of a link's target on this site; "" when the site does not serve it."""
    if target.startswith(("https://", "#")):
        return target
    if method := METHOD_OF.fullmatch(target):
        return reverse("method") + (method[1] or "")
    match = PAGE_OF.fullmatch(target)
    return reverse("kernel", args=[match[1]]) + (match[2] or "") if match and match[1] in names() else ""
