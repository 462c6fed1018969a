"""Compares LLM frameworks on what they add around the model.

    python bench.py --python langchain=venv/bin/python --python runwell=venv2/bin/python

Every framework runs in its own interpreter, one process per group of cells. Repeats are
interleaved (A B C, B C A, ...), so that a busy moment on the machine does not fall on one
framework alone, and the table shows medians. Standard library only.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLOOR = "raw"
FRAMEWORKS = (FLOOR, "langchain", "pydantic_ai", "runwell")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", action="append", default=[], metavar="FRAMEWORK=PATH", help="interpreter to run a framework in"
    )
    parser.add_argument("--frameworks", default=",".join(FRAMEWORKS), help="comma-separated, in column order")
    parser.add_argument("--only", default="*", help="comma-separated globs over cell names, such as 'agent.*,chain.*'")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="shrink the inputs, for a quick smoke run")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: time instant cells by processor time, for a busy machine",
    )
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds one process may take")
    parser.add_argument("--base", default=FLOOR, help="the framework that the others' ratios are to")
    parser.add_argument("--json", metavar="FILE", help="write every sample and the medians")
    parser.add_argument("--markdown", metavar="FILE", help="write the table")
    parser.add_argument("--list", action="store_true", help="print the cell names and stop")
    return parser.parse_args()


def load_cells(pattern):
    """The cells that match, by group."""
    import kit
    from workloads import GROUPS

    groups, known = {}, set()
    for group in GROUPS:
        importlib.import_module(f"workloads.{group}")
        fresh = [cell for cell in kit.chosen(pattern) if cell.name not in known]
        known |= kit.CELLS.keys()
        if fresh:
            groups[group] = fresh
    return groups


def run_worker(python, framework, group, options):
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "BENCH_SCALE": str(options.scale),
        "BENCH_CLOCK": options.clock,
        "PYTHONHASHSEED": "0",
        "LANGSMITH_TRACING": "false",
        "LANGCHAIN_TRACING_V2": "false",
    }
    command = [python, str(HERE / "worker.py"), framework, group, "--only", options.only]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=options.timeout, env=environment, cwd=HERE
        )
        return json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"problem": None, "failed": f"took more than {options.timeout:g} s"}
    except (IndexError, json.JSONDecodeError):
        return {"problem": None, "failed": (done.stderr.strip() or "no output").splitlines()[-1]}


def collect(groups, frameworks, pythons, options):
    """Run everything; after each repeat, give what there is so far."""
    samples = {framework: {} for framework in frameworks}
    remarks = {framework: {} for framework in frameworks}
    versions, absent = {}, {}
    for repeat in range(options.repeats):
        started = time.monotonic()
        for group, cells in groups.items():
            turn = repeat % len(frameworks)
            for framework in frameworks[turn:] + frameworks[:turn]:
                if framework in absent:
                    continue
                report = run_worker(pythons[framework], framework, group, options)
                if report["problem"]:
                    absent[framework] = report["problem"]
                    print(f"leaving out {framework}: {report['problem']}", file=sys.stderr)
                    continue
                versions.setdefault(framework, report.get("versions") or None)
                for cell in cells:
                    outcome = report.get("cells", {}).get(cell.name, {"error": report.get("failed", "no result")})
                    if "value" in outcome:
                        samples[framework].setdefault(cell.name, []).append(outcome["value"])
                    else:
                        remarks[framework][cell.name] = outcome
        print(f"repeat {repeat + 1} of {options.repeats}: {time.monotonic() - started:.0f} s", file=sys.stderr)
        yield samples, remarks, versions, absent


def summarise(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "samples": values}


def times_worse(cell, value, base):
    """How many times worse than the base's value."""
    if not cell.has_ratio or not value or not base:
        return None
    return base / value if cell.higher_is_better else value / base


def number(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 100 else f"{value:.3g}"


def table(groups, frameworks, results, base=FLOOR):
    """Rows of text: a cell's name and unit, each framework's median, and its ratio to the base."""
    others = [framework for framework in frameworks if framework != base]
    rows = [["cell", "unit", *frameworks, *(f"{framework} / {base}" for framework in others if base in frameworks)]]
    for cells in groups.values():
        for cell in cells:
            medians = [results[framework].get(cell.name, {}).get("median") for framework in frameworks]
            row = [cell.name, cell.unit + (" (more is better)" if cell.higher_is_better else "")]
            row += ["-" if median is None else number(median) for median in medians]
            if base in frameworks:
                reference = medians[frameworks.index(base)]
                for framework in others:
                    told = cell.has_floor or FLOOR not in (framework, base)
                    ratio = times_worse(cell, medians[frameworks.index(framework)], reference) if told else None
                    row.append("-" if ratio is None else f"{number(ratio)}x")
            rows.append(row)
    return rows


def as_text(rows):
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        names = [text.ljust(width) for text, width in zip(row[:2], widths)]
        numbers = [text.rjust(width) for text, width in zip(row[2:], widths[2:])]
        lines.append("  ".join(names + numbers))
    return "\n".join(lines)


def as_markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    rule = "|" + "|".join(" --- " if place < 2 else " ---: " for place in range(len(rows[0]))) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def machine():
    memory = ""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = f", {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB of memory"
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores{memory}"


def main():
    options = parse_options()
    os.environ["BENCH_SCALE"] = str(options.scale)
    groups = load_cells(options.only)
    if options.list:
        print("\n".join(cell.name for cells in groups.values() for cell in cells))
        return
    frameworks = [name for name in options.frameworks.split(",") if name]
    pythons = dict.fromkeys(frameworks, sys.executable)
    for choice in options.python:
        framework, equals, path = choice.partition("=")
        if framework not in pythons or not equals:
            sys.exit(f"--python {choice}: expected FRAMEWORK=PATH with FRAMEWORK one of {', '.join(frameworks)}")
        pythons[framework] = os.path.abspath(path) if os.sep in path else path

    for samples, remarks, versions, absent in collect(groups, frameworks, pythons, options):
        present = [framework for framework in frameworks if framework not in absent]
        results = {
            framework: {name: summarise(values) for name, values in samples[framework].items()} for framework in present
        }
        rows = table(groups, present, results, options.base)
        if options.json:
            Path(options.json).write_text(
                json.dumps(
                    {
                        "date": datetime.date.today().isoformat(),
                        "machine": machine(),
                        "repeats": options.repeats,
                        "scale": options.scale,
                        "clock": options.clock,
                        "versions": versions,
                        "left_out": absent,
                        "remarks": remarks,
                        "results": results,
                    },
                    indent=1,
                )
                + "\n"
            )
        if options.markdown:
            Path(options.markdown).write_text(as_markdown(rows) + "\n")
    print(as_text(rows))
    errors = [
        f"{framework} {name}: {outcome['error']}"
        for framework in present
        for name, outcome in remarks[framework].items()
        if "error" in outcome
    ]
    for line in errors:
        print("failed:", line)
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
