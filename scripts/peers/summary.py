"""Computes the medians of the rounds, and formats them as a Markdown table."""

import collections
import dataclasses
import statistics

from .runs import Run

# ballast's scheme -> bits of the weights, and the other programs' formats with these bits
RIVALS = {
    "w8a8": ("INT8", {"llama.cpp": "Q8_0", "OpenVINO": "int8"}),
    "w4a8": ("INT4", {"llama.cpp": "Q4_0", "OpenVINO": "int4"}),
    "w4a16": ("INT4", {"llama.cpp": "Q4_0", "OpenVINO": "int4"}),
}


@dataclasses.dataclass(frozen=True)
class Rival:
    program: str
    variant: str
    tokens_per_second: float
    ratio: float  # ballast's speed over this one's


@dataclasses.dataclass(frozen=True)
class Row:
    test: str
    weights: str
    scheme: str
    tokens_per_second: float
    fraction_of_limit: float
    limit: float  # tokens per second
    rivals: list[Rival]


def summarize(runs: list[Run]) -> list[Row]:
    """Computes ratios within each round, in which the machine was the same for all, and then their medians."""
    speeds = collections.defaultdict(dict)  # (program, variant, test) -> round -> speed
    for run in runs:
        speeds[run.program, run.variant, run.speed.test][run.round] = run.speed
    rows = []
    for test in dict.fromkeys(run.speed.test for run in runs):
        for scheme, (weights, others) in RIVALS.items():
            own = speeds.get(("ballast", scheme, test))
            if own is None:
                continue
            rivals = []
            for program, variant in others.items():
                theirs = speeds.get((program, variant, test))
                if theirs is not None:
                    rivals.append(Rival(program, variant, median_speed(theirs), statistics.median(
                        own[r].tokens_per_second / theirs[r].tokens_per_second for r in own.keys() & theirs.keys())))
            share = statistics.median(speed.fraction_of_limit for speed in own.values())
            limit = statistics.median(speed.tokens_per_second / speed.fraction_of_limit for speed in own.values())
            rows.append(Row(test, weights, scheme, median_speed(own), share, limit, rivals))
    return rows


def median_speed(rounds: dict) -> float:
    return statistics.median(speed.tokens_per_second for speed in rounds.values())


def format_speed(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}"


def plural(count: int, thing: str) -> str:
    return f"{count} {thing}" + ("" if count == 1 else "s")


def describe_machine(machines: list[dict], rounds: int) -> str:
    reads = statistics.median(machine["read_gb_s"] for machine in machines)
    peak = statistics.median(machine["peak_gops"] for machine in machines)
    first = machines[0]
    threads, turns = plural(first["threads"], "thread"), plural(rounds, "alternating round")
    return (f"{first['cpu']} ({first['simd_target']}), {threads}, memory reads {reads:.1f} GB/s, "
            f"INT8 peak {peak:,.0f} Gop/s; medians of {turns}")


def markdown_rows(table: list[list[str]]) -> str:
    """Returns a table whose first row is the heading."""
    header, *rest = table
    return "".join("| " + " | ".join(cells) + " |\n" for cells in [header, ["---"] * len(header), *rest])


def markdown_table(rows: list[Row]) -> str:
    programs = list(dict.fromkeys(rival.program for row in rows for rival in row.rivals))
    header = ["test", "weights", "ballast", "tokens/s", "of the limit"]
    for program in programs:
        header += [program, "ballast is"]
    table = [header]
    for row in rows:
        cells = [row.test, row.weights, f"`{row.scheme}`", f"**{format_speed(row.tokens_per_second)}**",
                 f"{100 * row.fraction_of_limit:.0f} %"]
        found = {rival.program: rival for rival in row.rivals}
        for program in programs:
            rival = found.get(program)
            if rival:
                cells += [f"{format_speed(rival.tokens_per_second)} ({rival.variant})", f"{rival.ratio:.2f}x"]
            else:
                cells += ["", ""]
        table.append(cells)
    return markdown_rows(table)
