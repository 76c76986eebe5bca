#!/usr/bin/env python3
"""Draws perplexity along a text, one line for each run of `ballast eval MODEL --text FILE --stream N ... --json`.

    scripts/plot_streams.py 'dense=dense.json' 'window 1,024=window.json' ... -o streaming.svg

The vertical axis is logarithmic. Needs only Python.
"""

import argparse
import html
import json
import math
import pathlib

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 24, 48
COLORS = ["#1f5fa8", "#c8452d", "#2e8b57", "#8a5fb0"]


def ticks_of(low: float, high: float) -> list[float]:
    """Returns 1, 2 and 5 times powers of ten within [low, high]."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    values = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
    return [value for value in values if low <= value <= high]


def draw(runs: list[tuple[str, list[dict]]]) -> str:
    points = [(name, [(s["first"] + s["tokens"] / 2, s["ppl"]) for s in segments]) for name, segments in runs]
    longest = max(s["first"] + s["tokens"] for _, segments in runs for s in segments)
    low = min(y for _, line in points for _, y in line) * 0.8
    high = max(y for _, line in points for _, y in line) * 1.25

    def x(position: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * position / longest

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (math.log(high / value) / math.log(high / low))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
           'font-family="sans-serif" font-size="12" role="img" aria-label="Perplexity along a stream of tokens">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for value in ticks_of(low, high):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    step = 10 ** math.floor(math.log10(longest)) // (1 if longest / 10 ** math.floor(math.log10(longest)) >= 4 else 5)
    for position in range(0, longest + 1, max(1, step)):
        out.append(f'<text x="{x(position):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{position:,}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">token</text>')
    out.append(f'<text x="16" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
               f'transform="rotate(-90 16 {(TOP + HEIGHT - BOTTOM) / 2})">perplexity</text>')
    # Labels are at the ends of their lines, moved apart where these are close.
    labels = sorted((y(line[-1][1]), index) for index, (_, line) in enumerate(points))
    places, previous = {}, -math.inf
    for at, index in labels:
        previous = max(at, previous + 15)
        places[index] = previous
    for index, (name, line) in enumerate(points):
        color = COLORS[index % len(COLORS)]
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in line)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.8"/>'
                   f'<text x="{WIDTH - RIGHT + 8}" y="{places[index] + 4:.1f}" fill="{color}">{html.escape(name)}</text>')
    return "\n".join([*out, "</svg>\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="NAME=FILE.json")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    runs = []
    for run in arguments.runs:
        name, _, file = run.rpartition("=")
        segments = json.loads(pathlib.Path(file).read_text()).get("segments")
        if not name or not segments:
            parser.error(f"{run}: must be NAME=FILE.json of a run with --stream")
        runs.append((name, segments))
    arguments.output.write_text(draw(runs))


if __name__ == "__main__":
    main()
