"""Adds pages that have no file in docs/: the commands from their --help, the C++ headers from doxygen, and the README, the
changelog and CONTRIBUTING.md of the repository.

mkdocs calls the functions whose names begin with on_. BALLAST_PROGRAM names the program, BALLAST_CPP the folder of
doxygen's output; scripts/docs/build_docs.sh sets both.
"""

import html
import os
import pathlib
import re
import subprocess

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
DESCRIPTION_COLUMN = 32  # of --help
OF_THE_REPOSITORY = {"README.md": "readme.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
# Tables without titles have no line for them.
CSS = """.md-typeset table:not([class]) {font-size: .72rem}
.md-typeset table:not([class]) :is(td, th) {min-width: 0; padding: .5em .7em}
.md-grid {max-width: 74rem}
.md-typeset td code {word-break: normal}
.md-typeset thead:not(:has(th:not(:empty))) {display: none}
"""


def help_of(*command: str) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([os.environ["BALLAST_PROGRAM"], *command, "--help"], check=True, capture_output=True, text=True,
                          env=environment).stdout


def commands() -> list[str]:
    section = re.search(r"^Subcommands:\n((?:  .*\n)+)", help_of(), re.M).group(1)
    return re.findall(r"^  (\w+)", section, re.M)


def entries_of(lines: list[str]) -> list[tuple[str, str]]:
    """Returns names and descriptions, which follow them on the same line, or on the next if a name is long."""
    below = " " * DESCRIPTION_COLUMN
    entries: list[tuple[str, str]] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith(below):
            entries[-1] = (entries[-1][0], line.strip())
        elif following.startswith(below):
            entries.append((line.strip(), ""))
        else:
            entries.append((line[:DESCRIPTION_COLUMN].strip(), line[DESCRIPTION_COLUMN:].strip()))
    return entries


def code(text: str) -> str:
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>"


def cell(text: str) -> str:
    return html.escape(text, quote=False).replace("|", "&#124;").replace("*", "&#42;").replace("_", "&#95;")


def table_of(entries: list[tuple[str, str]], linked: bool) -> str:
    rows = ["| | |", "|---|---|"]
    for name, description in entries:
        shown = f"[{code(name)}]({name}.md)" if linked else code(name)
        rows.append(f"| {shown} | {cell(description)} |")
    return "\n".join(rows)


def command_page(*command: str) -> str:
    """Returns --help as a page: its sections as tables, the rest unchanged."""
    summary, usage, *lines = help_of(*command).splitlines()
    page = [f"# {' '.join(('ballast', *command))}", summary, f"    {usage.removeprefix('Usage: ')}"]
    blocks = re.split(r"\n\n+", "\n".join(lines).strip("\n"))
    for block in blocks:
        title, *body = block.split("\n")
        if title in ("Positionals:", "Options:", "Subcommands:"):
            page += [f"## {title[:-1]}", table_of(entries_of(body), title == "Subcommands:")]
        elif title.endswith(":") and body:
            page += [f"## {title[:-1]}", "\n".join("    " + line.removeprefix("  ") for line in body)]
        else:
            page.append(cell(block))
    return "\n\n".join(page) + "\n"


def on_config(config):
    for section in config.nav:
        for entries in section.values():
            for i, entry in enumerate(entries if isinstance(entries, list) else []):
                if entry.get("Commands") == "commands":
                    pages = [{name: f"commands/{name}.md"} for name in commands()]
                    entries[i] = {"Commands": ["commands/index.md", *pages]}
    return config


def on_files(files, config):
    def add(path: str, content: str) -> None:
        files.append(File.generated(config, path, content=content))

    add("commands/index.md", command_page())
    for name in commands():
        add(f"commands/{name}.md", command_page(name))
    for name, page in OF_THE_REPOSITORY.items():
        add(page, (ROOT / name).read_text())
    add("site.css", CSS)
    cpp = pathlib.Path(os.environ["BALLAST_CPP"])
    headers = sorted(path.name for path in (ROOT / "include" / "ballast").glob("*.h"))
    add("cpp.md", cpp_page(headers, cpp))
    for path in sorted(cpp.rglob("*")):
        if path.is_file():
            files.append(File.generated(config, f"cpp/{path.relative_to(cpp)}", abs_src_path=str(path)))
    return files


def cpp_page(headers: list[str], cpp: pathlib.Path) -> str:
    """Returns the first line of each header's comment, and the page where doxygen describes it."""
    rows = []
    for name in headers:
        first = (ROOT / "include" / "ballast" / name).read_text().splitlines()[0].removeprefix("// ")
        page = name.replace("_", "__").replace(".h", "_8h.html")
        if not (cpp / page).exists():
            raise FileNotFoundError(f"doxygen wrote no page of {name}: {cpp / page}")
        rows.append(f"| [`{name}`](cpp/{page}) | {cell(first)} |")
    return ("# C++\n\n`find_package(ballast)` finds what `cmake --install` left; each job has one header. "
            "[From C++](use-from-cpp.md) has a program.\n\n| header | |\n|---|---|\n" + "\n".join(rows) + "\n")


def on_page_markdown(markdown, page, config, files):
    of_the_root = page.file.src_uri in OF_THE_REPOSITORY.values()
    return with_lists_apart(with_links_of_site(markdown, "" if of_the_root else "../"))


def with_links_of_site(markdown: str, root: str) -> str:
    """Changes links to files of the repository, whose folder is `root`, to links to their pages; a link to a file without
    a page becomes its text."""
    def moved(match: re.Match) -> str:
        text, target = match.groups()
        if target.startswith(("http", "#")) or not target.startswith(root):
            return match.group(0)
        target = target.removeprefix(root)
        if target in OF_THE_REPOSITORY:
            return f"[{text}]({OF_THE_REPOSITORY[target]})"
        if target == "include/ballast":
            return f"[{text}](cpp.md)"
        if target.startswith("docs/"):
            return f"[{text}]({target.removeprefix('docs/')})"
        return match.group(0) if target.startswith("../") or (ROOT / "docs" / target.split("#")[0]).exists() else text

    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", moved, markdown)


def with_lists_apart(markdown: str) -> str:
    """Adds an empty line between a paragraph and a list after it, which Python's Markdown requires."""
    lines: list[str] = []
    fenced = False
    for line in markdown.split("\n"):
        fenced ^= line.startswith("```")
        item = re.match(r"([-*]|\d+\.) ", line)
        if item and not fenced and lines and lines[-1].strip() and not re.match(r"([-*]|\d+\.|  )\s?", lines[-1]):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)
