"""Whether the tables of docs/results/evidence/ are of today's program: scripts/evidence.sh --check calls this for every table.

check_tables.py cells TABLE.md SWEEP.yaml    the sweep with two rows for each model and width, the quickest and the one of lowest KL
                                             in the quicker half, and of each model the one of lowest KL at one width
check_tables.py compare TABLE.md AGAIN.md [CHECKS.md]
                                             their KL divergences beside the printed ones; ends in 1 where one moved; with CHECKS.md
                                             the table's line there is written anew

A figure has moved when it is further than one standard error (either's, the larger one) from the printed one. On processors with
the table's instructions figures come out to the digit; elsewhere other roundings take descent other ways, and `best` at 2 bits has been
seen three errors off. Where a table has several sizes of calibration, the smallest is run again; where it has several draws, its errors are
deviations between them.
"""

import math
import pathlib
import re
import sys

SECTION = re.compile(r"### (?P<model>[^,]+), (?P<width>.+)")
FIGURE = re.compile(r"(?P<value>[\d.]+|nan) ± (?P<error>[\d.]+|nan)")


class Row:
    """A line of a table: model, width and method, figures of KL by the names of their columns, and how long it took."""

    def __init__(self, model, width, columns, fields):
        by_column = self.fields = dict(zip(columns, fields))
        self.model, self.name = model, f"{width}: {by_column['method']}"
        self.seconds = float(by_column["seconds"] or "nan")
        self.figures = {}
        for column, field in by_column.items():
            match = FIGURE.match(field)
            if match and column.split(",")[0] in ("validation", "test"):
                self.figures[column] = float(match["value"]), float(match["error"]), last_digit(match["value"])


def read_table(path):
    rows, section, columns = [], None, []
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        if match := SECTION.fullmatch(line):
            section = match
        elif line.startswith("| method |"):
            columns = fields_of(line)
        elif section and line.startswith("| "):
            rows.append(Row(section["model"], section["width"], columns, fields_of(line)))
    if not rows:
        sys.exit(f"{path}: no rows of a table that scripts/evidence.sh wrote")
    return rows


def fields_of(line):
    return [field.strip() for field in line.strip().strip("|").split("|")]


def cheap_rows(rows):
    """Of each model and width, the row that took least time, and of the quicker half the one of lowest KL; of each model, the one
    of lowest KL at the width where that took least time, so that what a table is for is among them. Rows quantized elsewhere have no
    time."""
    chosen, lowest = set(), {}
    figure = lambda row: next(iter(row.figures.values()), (math.inf,))
    sections = dict.fromkeys((row.model, row.name.partition(": ")[0]) for row in rows)
    for model, width in sections:
        mine = [row for row in rows if row.model == model and row.name.startswith(width + ": ") and not math.isnan(row.seconds)]
        mine.sort(key=lambda row: row.seconds)
        quicker = mine[: (len(mine) + 1) // 2]
        for row in quicker[:1] + [min(quicker, key=figure)]:
            chosen.add((row.model, row.name))
        best = min(mine, key=figure)
        lowest[model] = min(lowest.get(model, best), best, key=lambda row: row.seconds)
    return chosen | {(row.model, row.name) for row in lowest.values()}


def reduced_sweep(text, chosen):
    """The sweep of scripts/evidence/ with the chosen rows, their models, and one size of calibration. A sweep is a grid: what is
    chosen of one model alone is excluded of the others."""
    models, names = {model for model, _ in chosen}, {name for _, name in chosen}
    lines, of_list = [], False
    for line in text.splitlines():
        of_list = of_list or line == "list:"
        model = re.match(r"  - \{path: .*name: (.*)\}$", line)
        entry = re.match(r'  - \{name: "([^"]*)"', line)
        if (model and model[1] not in models) or (of_list and entry and entry[1] not in names):
            continue
        lines.append(re.sub(r"samples: \[(\d+)[^]]*\]", r"samples: [\1]", line))
    others = [(model, name) for model in sorted(models) for name in sorted(names) if (model, name) not in chosen]
    lines += ["exclude:"] * bool(others) + [f'  - {{model: {model}, recipe: "{name}"}}' for model, name in others]
    return "\n".join(lines) + "\n"


def made_by(table):
    """Commit and processor, as the table's own head has them."""
    match = re.search(r"with the program of commit (\S+), (.*?); do not edit", pathlib.Path(table).read_text(encoding="utf-8"))
    return (match[1], match[2]) if match else sys.exit(f"{table}: its head names no commit and processor")


CHECKS_HEAD = """# Tables run again

Written by `scripts/evidence.sh --check --record`; do not edit. Which program made each table of docs/results/evidence/, on which processor, and what a later one gives of it: of two cheap rows of each model and width (by programs after f874059 also, of each model, the best at one width) how many KL divergences were compared,
how many lay further than a standard error from the printed ones, and how far the furthest did, in standard errors (0: the same in every printed digit). Empty: not run again.

| table | made by | run again by | figures | moved | furthest |
|---|---|---|---:|---:|---:|
"""


def record(checks, table, again, compared, moved, furthest):
    """Writes the check of `table` into the list of all tables beside it. A check of a table that was made anew since is forgotten."""
    path, table = pathlib.Path(checks), pathlib.Path(table)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    checked = {tuple(fields_of(line)[:2]): fields_of(line)[2:] for line in lines if line.startswith("| ")}
    checked[table.stem, ", ".join(made_by(table))] = [", ".join(made_by(again)), str(compared), str(moved), f"{furthest:.2f}"]
    rows = ""
    for each in sorted(table.parent.glob("*.md")):
        key = each.stem, ", ".join(made_by(each))
        rows += "| " + " | ".join([*key, *checked.get(key, [""] * 4)]) + " |\n"
    path.write_text(CHECKS_HEAD + rows, encoding="utf-8")


def compare(table, again, checks=None):
    printed = {(row.model, row.name): row for row in read_table(table)}
    now = {(row.model, row.name): row for row in read_table(again)}
    compared = moved = 0
    furthest = 0.0
    for model, name in sorted(cheap_rows(printed.values())):
        row = now.get((model, name))
        for column, (before, error_before, digit) in printed[model, name].figures.items():
            # Tables of one size of calibration do not name it.
            match = row and next((figure for short, figure in row.figures.items() if column.startswith(short)), None)
            if not match:
                moved += 1
                print(f"  {model}, {name}, {column}: printed {before}, not measured now")
                continue
            value, error, _ = match
            # What is printed is rounded by up to half of its last digit, both times.
            distance = abs(value - before) / max([digit, *(e for e in (error, error_before) if not math.isnan(e))])
            compared += 1
            furthest = max(furthest, distance)
            if not distance <= 1.0 + 1e-9:  # 1.37 and 1.36 ± 0.01 are one apart
                moved += 1
                print(f"  {model}, {name}, {column}: printed {before} ± {error_before}, now {value} ± {error}")
            if column.endswith(" windows"):
                break  # the smallest size stands first
    name = pathlib.Path(table).stem
    print(f"{name}: {moved} of {compared} figures moved, the furthest is {furthest:.2f} standard errors from the printed one")
    if checks:
        record(checks, table, again, compared, moved, furthest)
    return 1 if moved or not compared else 0


def last_digit(text):
    return 10.0 ** -len(text.partition(".")[2])


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "cells":
        chosen = cheap_rows(read_table(sys.argv[2]))
        sys.stdout.write(reduced_sweep(pathlib.Path(sys.argv[3]).read_text(encoding="utf-8"), chosen))
    elif len(sys.argv) in (4, 5) and sys.argv[1] == "compare":
        sys.exit(compare(*sys.argv[2:]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
