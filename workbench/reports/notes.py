"""The reviewer's note, which is Markdown, as HTML that can do nothing but be read."""

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
TAGS = {"p", "br", "hr", "h1", "h2", "h3", "h4", "em", "strong", "code", "pre", "blockquote", "ul", "ol", "li", "a"}
TABLES = {"table", "thead", "tbody", "tr", "th", "td"}
SCHEMES = {"http", "https", "mailto"}
MAX_CELLS = 2_000
"""In a note's tables. Markdown fills up short lines: a few thousand characters would take a second of each reader."""


def html(note: str) -> Markup:
    """The note as HTML: text, lists, tables and links. Raw HTML is shown as text; images are left out."""
    return Markup(nh3.clean(MARKDOWN.render(note), tags=TAGS | TABLES, attributes={"a": {"href"}}, url_schemes=SCHEMES))


def cells(note: str) -> int:
    """The most cells that the note's tables can have."""
    lines = note.splitlines()
    return len(lines) * max((line.count("|") for line in lines), default=0)
