"""Whether the tables of docs/results/evidence/ are of today's program: scripts/evidence.sh --check calls this for every table.

check_tables.py cells TABLE.md SWEEP.yaml    the sweep with two rows for each model and width: the quickest, and the one of lowest KL
                                             in the quicker half
check_tables.py compare TABLE.md AGAIN.md    their KL divergences beside the printed ones; ends in 1 where one moved

A figure has moved when it is further than one standard error (either's, the larger one) from the printed one: less than another
draw of the text would move it, more than another processor's rounding does. Where a table has several sizes of calibration, the
smallest is run again.
"""

import math
import pathlib
import re
import sys

SECTION = re.compile(r"### (?P<model>[^,]+), (?P<width>.+)")
FIGURE = re.compile(r"(?P<value>[\d.]+) ± (?P<error>[\d.]+|nan)")


class Row:
    """A line of a table: model, width and method, figures of KL by the names of their columns, and how long it took."""

    def __init__(self, model, width, columns, fields):
        by_column = dict(zip(columns, fields))
        self.model, self.name = model, f"{width}: {by_column['method']}"
        self.seconds = float(by_column["seconds"] or "nan")
        self.figures = {}
        for column, field in by_column.items():
            match = FIGURE.match(field)
            if match and column.split(",")[0] in ("validation", "test"):
                self.figures[column] = float(match["value"]), float(match["error"])


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
    """Of each model and width, the row that took least time, and of the quicker half the one of lowest KL. Rows quantized elsewhere
    have no time."""
    chosen = set()
    sections = dict.fromkeys((row.model, row.name.partition(": ")[0]) for row in rows)
    for model, width in sections:
        mine = [row for row in rows if row.model == model and row.name.startswith(width + ": ") and not math.isnan(row.seconds)]
        mine.sort(key=lambda row: row.seconds)
        quicker = mine[: (len(mine) + 1) // 2]
        for row in quicker[:1] + [min(quicker, key=lambda row: next(iter(row.figures.values())))]:
            chosen.add((row.model, row.name))
    return chosen


def reduced_sweep(text, chosen):
    """The sweep of scripts/evidence/ with the chosen rows, their models, and one size of calibration. A row that is chosen of one
    model is run of each, for a sweep is a grid."""
    models, names = {model for model, _ in chosen}, {name for _, name in chosen}
    lines, of_list = [], False
    for line in text.splitlines():
        of_list = of_list or line == "list:"
        model = re.match(r"  - \{path: .*name: (.*)\}$", line)
        entry = re.match(r'  - \{name: "([^"]*)"', line)
        if (model and model[1] not in models) or (of_list and entry and entry[1] not in names):
            continue
        lines.append(re.sub(r"samples: \[(\d+)[^]]*\]", r"samples: [\1]", line))
    return "\n".join(lines) + "\n"


def compare(table, again):
    printed = {(row.model, row.name): row for row in read_table(table)}
    compared = moved = 0
    furthest = 0.0
    for row in read_table(again):
        before = printed.get((row.model, row.name))
        for column, (value, error) in row.figures.items():
            # Tables of one size of calibration do not name it.
            match = before and next((f for name, f in before.figures.items() if name.startswith(column)), None)
            if not match:
                continue
            errors = [e for e in (error, match[1]) if not math.isnan(e)]
            # What is printed is rounded by up to half of its last digit, both times.
            distance = abs(value - match[0]) / max([last_digit(value), *errors])
            compared += 1
            furthest = max(furthest, distance)
            if not distance <= 1.0:
                moved += 1
                print(f"  {row.model}, {row.name}, {column}: printed {match[0]} ± {match[1]}, now {value} ± {error}")
    name = pathlib.Path(table).stem
    if compared == 0:
        print(f"{name}: nothing could be compared")
        return 1
    print(f"{name}: {compared - moved} of {compared} figures hold, the furthest {furthest:.2f} standard errors from the printed one")
    return 1 if moved else 0


def last_digit(value):
    return 10.0 ** -len(str(value).partition(".")[2])


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "cells":
        chosen = cheap_rows(read_table(sys.argv[2]))
        sys.stdout.write(reduced_sweep(pathlib.Path(sys.argv[3]).read_text(encoding="utf-8"), chosen))
    elif len(sys.argv) == 4 and sys.argv[1] == "compare":
        sys.exit(compare(sys.argv[2], sys.argv[3]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
