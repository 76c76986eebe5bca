"""Draws speeds as an SVG of bars, with one panel for each test, for light and dark pages."""

import html

from .summary import Row, format_speed

WIDTH, MARGIN, LABELS, VALUES = 800, 20, 104, 52
BAR, STEP, HEADING = 14, 19, 30
STYLE = """
  svg { --page: #ffffff; --text: #24292f; --faint: #e6e9ed; }
  svg { --ballast: #1f5fa8; --llama-cpp: #c8452d; --openvino: #2e8b57; }
  @media (prefers-color-scheme: dark) {
    svg { --page: #161b22; --text: #d5dae0; --faint: #30363d; }
    svg { --ballast: #5b9ee6; --llama-cpp: #e8765f; --openvino: #58b884; }
  }
  text { fill: var(--text); }
"""
TITLES = {"pp": "prompt of {} tokens", "tg": "generation of {} tokens"}


def test_title(test: str) -> str:
    tokens, _, depth = test[2:].partition("@")
    return TITLES[test[:2]].format(tokens) + (f" after {int(depth):,}" if depth else "")


def program_class(program: str) -> str:
    return program.lower().replace(".", "-")


def panel_bars(rows: list[Row]) -> list[tuple[str, str, float, float]]:
    """Returns (program, variant, speed, limit or 0) for each variant, ordered by the bits of the weights."""
    bars = {}
    for row in rows:
        bars[row.weights, "ballast", row.scheme] = (row.tokens_per_second, row.limit)
        for rival in row.rivals:
            bars[row.weights, rival.program, rival.variant] = (rival.tokens_per_second, 0.0)
    order = sorted(bars, key=lambda key: (key[0] != "INT8", key[1] != "ballast"))
    return [(program, variant, *bars[weights, program, variant]) for weights, program, variant in order]


def draw_panel(test: str, rows: list[Row], left: float, top: float, width: float) -> list[str]:
    bars = panel_bars(rows)
    longest = max(max(speed, limit) for _, _, speed, limit in bars)
    scale = (width - LABELS - VALUES) / longest
    start = left + LABELS
    out = [f'<text x="{left}" y="{top + 14}" font-weight="bold">{html.escape(test_title(test))}, tokens/s</text>']
    for index, (program, variant, speed, limit) in enumerate(bars):
        y = top + HEADING + STEP * index
        baseline = y + BAR - 3
        if limit:
            out.append(f'<rect x="{start}" y="{y}" width="{limit * scale:.1f}" height="{BAR}" '
                       'style="fill:var(--faint)"/>')
        out.append(f'<rect x="{start}" y="{y}" width="{speed * scale:.1f}" height="{BAR}" '
                   f'style="fill:var(--{program_class(program)})"/>'
                   f'<text x="{start - 6}" y="{baseline}" text-anchor="end">{html.escape(program)} {variant}</text>'
                   f'<text x="{start + max(speed, limit) * scale + 5:.1f}" y="{baseline}">{format_speed(speed)}</text>')
    return out


def draw(rows: list[Row], caption: str) -> str:
    tests = list(dict.fromkeys(row.test for row in rows))
    columns = min(2, len(tests))
    width = (WIDTH - MARGIN * (columns + 1)) / columns
    panels, y = [], float(MARGIN)
    for first in range(0, len(tests), columns):
        line = tests[first:first + columns]
        tallest = 0
        for column, test in enumerate(line):
            of_test = [row for row in rows if row.test == test]
            panels += draw_panel(test, of_test, MARGIN + column * (width + MARGIN), y, width)
            tallest = max(tallest, len(panel_bars(of_test)))
        y += HEADING + STEP * tallest + MARGIN
    height = y + 36
    notes = [f'<text x="{MARGIN}" y="{y + 4}" font-size="11">{html.escape(caption)}</text>',
             f'<text x="{MARGIN}" y="{y + 20}" font-size="11">Grey: the limit of the machine, measured in the same '
             'run: memory reads for generation, INT8 peak for prompts</text>']
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
            f'height="{height:.0f}" font-family="sans-serif" font-size="12" role="img" '
            f'aria-label="Tokens per second of ballast and other programs">\n<style>{STYLE}</style>\n'
            f'<rect width="{WIDTH}" height="{height:.0f}" rx="6" style="fill:var(--page)"/>')
    return "\n".join([head, *panels, *notes, "</svg>\n"])
