#!/usr/bin/env python3
"""Checks a built site: every link leads to an existing file and anchor, and no page loads resources from other sites.

    check_links.py SITE
"""

import html.parser
import pathlib
import sys
import urllib.parse

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
NOT_LOADED = {"canonical", "alternate", "prev", "next", "edit"}


class Page(html.parser.HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.links: list[tuple[str, bool]] = []  # target, and whether it is loaded with the page
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        for name in ("href", "src"):
            if values.get(name):
                loaded = (tag, name) in LOADED and values.get("rel") not in NOT_LOADED
                self.links.append((values[name], loaded))


def problems_of(site: pathlib.Path, path: pathlib.Path, pages: dict[pathlib.Path, Page]) -> list[str]:
    problems = []
    for target, loaded in pages[path].links:
        parts = urllib.parse.urlsplit(target)
        if parts.scheme in ("data", "mailto", "javascript"):
            continue
        if parts.scheme or parts.netloc:
            if loaded:
                problems.append(f"loads {target}")
            continue
        # Pages that are shown for any address (404.html) have links from the site's root.
        base = site if parts.path.startswith("/") else path.parent
        found = (base / urllib.parse.unquote(parts.path).lstrip("/")).resolve() if parts.path else path
        if found.is_dir():
            found /= "index.html"
        if not found.is_file():
            problems.append(f"{target}: is not there")
        elif parts.fragment and found in pages and urllib.parse.unquote(parts.fragment) not in pages[found].anchors:
            problems.append(f"{target}: has no such anchor")
    return problems


def main() -> int:
    site = pathlib.Path(sys.argv[1]).resolve()
    pages = {path: Page(path.read_text(errors="replace")) for path in sorted(site.rglob("*.html"))}
    count = 0
    for path in pages:
        for problem in problems_of(site, path, pages):
            print(f"{path.relative_to(site)}: {problem}")
            count += 1
    links = sum(len(page.links) for page in pages.values())
    print(f"links: {links} in {len(pages)} pages, {count} broken")
    return 1 if count or not links else 0


if __name__ == "__main__":
    sys.exit(main())
