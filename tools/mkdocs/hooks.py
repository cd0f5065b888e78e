"""Hooks of mkdocs: links to files outside of docs lead to the repository, and lists may begin right after a paragraph."""

import os
import posixpath
import re

REPOSITORY = "https://github.com/routesrv/routesrv/blob/"
LINK = re.compile(r"\]\((\.\./[^()\s]+)\)")
FENCE = re.compile(r"^\s*(```|~~~)")
ITEM = re.compile(r"^(?:[-*]|\d+\.) ")


def on_page_markdown(markdown, page, **_):
    """Return the text of a page as mkdocs needs it. The source host accepts both forms."""

    def rewrite(match):
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), match[1]))
        if target.startswith("docs/"):
            return match[0]
        return f"]({REPOSITORY}{os.environ.get('DOCS_REF', 'main')}/{target})"

    lines, code, before = [], False, ""
    for line in markdown.split("\n"):
        code ^= bool(FENCE.match(line))
        if not code:
            if ITEM.match(line) and before.strip() and not ITEM.match(before) and not before.startswith(" "):
                lines.append("")
            line = LINK.sub(rewrite, line)
        lines.append(line)
        before = line
    return "\n".join(lines)
