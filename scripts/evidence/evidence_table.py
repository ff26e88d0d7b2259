"""A table of one sweep of scripts/evidence/: evidence_table.py RECORDS_DIRECTORY SWEEP.yaml

For each model and width, rows ranked by KL divergence: bits, KL on every text, the loss over the float model, and the difference from a
row to compare with, both paired by window. Of several draws of the calibration, the mean and the deviation from draw to draw.
"""

import functools
import hashlib
import json
import math
import pathlib
import re
import sys

UNDECIDED = 2.0  # standard errors, of many values


def mean_and_error(values):
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))


@functools.cache
def undecided_within(count):
    """Standard errors that a mean of `count` values exceeds by chance as often as a normal value exceeds two: 2.87 of five."""

    def inside(t):  # P(|T| <= t) of Student's t with `freedom` degrees of freedom, by its finite series
        freedom = count - 1
        angle = math.atan(t / math.sqrt(freedom))
        sine, cosine = math.sin(angle), math.cos(angle)
        term = 1.0 if freedom % 2 == 0 else cosine
        total = 0.0
        for k in range(2 + freedom % 2, freedom + 1, 2):
            total += term
            term *= cosine**2 * (k - 1) / k
        return sine * total if freedom % 2 == 0 else 2 / math.pi * (angle + sine * total)

    low, high = UNDECIDED, 1e3
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < math.erf(UNDECIDED / math.sqrt(2)) else (low, middle)
    return high


def millinats(mean, error, sign=""):
    """As many digits as the error's first needs, and no fewer than are easy to compare."""
    digits = 3 if abs(mean) < 1e-3 else 2 if abs(mean) < 0.1 else 1
    if error > 0:
        digits = max(digits, math.ceil(-math.log10(1e3 * error)))
    return f"{1e3 * mean:{sign}.{digits}f} ± {1e3 * error:.{digits}f}"


class Cell:
    """What one recipe gave on one text under one draw of the calibration."""

    def __init__(self, record):
        labels, measures = record["labels"], record["measures"]
        self.model, self.evaluation, self.use = labels["model"], labels["evaluation"], labels.get("use", "")
        name, _, seed = labels["recipe"].partition(", seed ")
        windows = re.search(r", (\d+) windows$", name)
        self.recipe = name[: windows.start()] if windows else name
        self.windows = int(windows[1]) if windows else 0
        self.seed = int(seed or 0)
        self.bits, self.model_bits = measures["bits_per_weight"], measures["model_bits_per_weight"]
        if "window_tokens" in measures:
            sys.exit(f"'{name}' of {self.model} on '{self.evaluation}': expected windows of one length, as `blocks` gives; nibble report weighs others")
        self.losses = measures["window_nll"]
        self.divergences = measures["divergence"]["window_nats"] if "divergence" in measures else []
        given = "checkpoint" in (record["configuration"]["recipe"] or {})  # quantized elsewhere
        self.seconds = None if given else record["timings"].get("quantize_seconds")
        self.environment = record["environment"]
        self.calibration = record["configuration"].get("calibration") or {}
        self.tuning = measures.get("tuning")


class Row:
    """One recipe of one model: its cells by use of the text and size of the calibration. Texts of one use are one column."""

    def __init__(self, cells):
        self.cells = cells
        self.columns = {}
        for cell in sorted(cells, key=lambda c: c.evaluation):
            draws = self.columns.setdefault((cell.use or cell.evaluation, cell.windows), {})
            texts = draws.setdefault(cell.seed, {})
            if cell.evaluation in texts:
                sys.exit(f"two cells '{cell.recipe}' of {cell.model} on '{cell.evaluation}': remove the records of an older sweep")
            texts[cell.evaluation] = cell

    def complete(self, texts):
        """Leaves out columns that lack a text: {use: names}."""
        for column, draws in list(self.columns.items()):
            if any(set(cells) != texts[column[0]] for cells in draws.values()):
                del self.columns[column]

    def draws(self, column, what):
        """The windows of the column's texts behind one another, for each draw of the calibration."""
        draws = self.columns.get(column, {})
        return {seed: sum((getattr(cell, what) for cell in draws[seed].values()), []) for seed in sorted(draws)}

    def divergence(self, column):
        """Mean and standard error over windows; of several draws, mean and deviation from draw to draw."""
        draws = list(self.draws(column, "divergences").values())
        if len(draws) < 2:
            return mean_and_error(draws[0]) if draws else (math.nan, math.nan)
        mean, error = mean_and_error([math.fsum(draw) / len(draw) for draw in draws])
        return mean, error * math.sqrt(len(draws))


def paired(row, other, column, what):
    """Mean difference, its error, and within how many of these it is undecided: over windows, or of several draws over these,
    which are few. None without the same texts and draws."""
    mine, theirs = row.draws(column, what), other.draws(column, what)
    if not mine or mine.keys() != theirs.keys():
        return None
    differences = [[a - b for a, b in zip(mine[seed], theirs[seed], strict=True)] for seed in mine]
    if len(differences) == 1:
        return *mean_and_error(differences[0]), UNDECIDED
    return *mean_and_error([math.fsum(draw) / len(draw) for draw in differences]), undecided_within(len(differences))


BESTS = ("best-2-bit", "best", "best-one-shot")  # presets that others are compared with: of a table's, the first


def best_of(width, rows):
    return next((name for name in (f"{width}: {best}" for best in BESTS) if name in rows), None)


def reference_of(name, rows):
    """The row to compare with: of "windowed, without scaling" it is "windowed", else the first of BESTS, each of the same
    width."""
    width, _, method = name.partition(": ")
    parts = method.split(", ")
    for length in range(len(parts) - 1, 0, -1):
        base = f"{width}: {', '.join(parts[:length])}"
        if base in rows:
            return base
    best = best_of(width, rows)
    return best if best != name else None


def undecided(difference):
    mean, error, within = difference
    return not abs(mean) > within * error  # one window has no error


def ranked_by(divergence):
    """What was not measured comes last, and leaves the rest in order."""
    return math.isnan(divergence), divergence


def most_draws(rows, column):
    return max((len(row.columns.get(column, ())) for row in rows.values()), default=0)


def lacks(row, rows):
    """Whether others have columns, or draws of one, that this row has not."""
    return any(len(row.columns.get(column, ())) < most_draws(rows, column) for column in {c for r in rows.values() for c in r.columns})


def heading(column):
    text, windows = column
    return f"{text}, {windows} windows" if windows else text


def table(rows, columns, decisive, floats):
    header = ["method", "bits", "whole model"]
    header += [heading(column) for column in columns]
    compared = any(reference_of(name, rows) for name in rows)
    header += ["loss"] * bool(floats) + ["more, paired"] * compared + ["seconds"]
    yield "| " + " | ".join(header) + " |"
    yield "|---" + "|---:" * (len(header) - 1) + "|"
    above = None
    for name in sorted(rows, key=lambda n: ranked_by(rows[n].divergence(decisive)[0])):
        row = rows[name]
        beside = paired(row, above, decisive, "divergences") if above else None
        above = row
        bits = [f"{cell.bits:.3f}" for cell in row.cells[:1]] + [f"{cell.model_bits:.3f}" for cell in row.cells[:1]]
        line = [name.partition(": ")[2] or name, *bits]
        for column in columns:
            level = column == decisive and beside and undecided(beside)
            line.append(millinats(*row.divergence(column)) + " †" * bool(level) if column in row.columns else "")
        if floats:
            loss = paired(row, floats, decisive, "losses")
            line.append(millinats(*loss[:2], sign="+") if loss else "")
        if compared:
            reference = reference_of(name, rows)
            difference = paired(row, rows[reference], decisive, "divergences") if reference else None
            text = f"{millinats(*difference[:2], sign='+')} than {reference.partition(': ')[2]}" if difference else ""
            if difference and len(row.columns[decisive]) > 1:  # of several draws also as a share, which other widths and models have too
                mean = rows[reference].divergence(decisive)[0]
                text += f" ({100 * difference[0] / mean:+.1f} ± {100 * difference[1] / mean:.1f} %)"
            if difference and undecided(difference):
                text += ", undecided"
            line.append(text)
        seconds = [cell.seconds for cell in row.cells if cell.seconds is not None]
        line.append(f"{sorted(seconds)[len(seconds) // 2]:.1f}" if seconds else "")
        yield "| " + " | ".join(line) + " |"


def beaten(rows, column):
    """Rows of at most the bits of best_of() whose KL is lower by more than two standard errors."""
    for name, row in rows.items():
        best = rows.get(best_of(name.partition(": ")[0], rows))
        if best is None or row is best or row.cells[0].bits > best.cells[0].bits:
            continue
        difference = paired(row, best, column, "divergences")
        if difference and difference[0] < 0 and not undecided(difference):
            yield name


def calibration_of(cells):
    """What the statistics of all cells were made from, as far as it is one thing."""
    facts = [cell.calibration for cell in cells if cell.calibration]
    if not facts:
        return "No calibration. "

    def each(name, default):
        return sorted({str(fact.get(name, default)) for fact in facts})

    windows = sorted({int(fact["windows"]) for fact in facts})
    tokens = " or ".join(each("window_tokens", "?"))
    text = f"Calibration: {', '.join(map(str, windows))} windows of {tokens} tokens"
    seeds = each("seeds", "0")
    text += f", {len(seeds)} draws of them" if len(seeds) > 1 else ""
    guided = [fact for fact in facts if "guided-hessian" in fact["collected"] or "output-hessian" in fact["collected"]]
    guides = sorted({fact.get("guide", "plain") for fact in guided})
    text += f", guide {' or '.join(guides)}" if guides else ""
    labels = [label for label in each("labels", "data") if label != "data"]
    text += f", {' or '.join(labels)} labels" if labels else ""
    flavours = [flavour for flavour in each("flavour", "sequence") if flavour != "sequence"]
    text += f", Fisher sensitivities by {' or '.join(flavours)}" if flavours else ""
    centres = [centre for centre in each("centre", "none") if centre != "none"]
    text += f", centred by {' or '.join(centres)}" if centres else ""
    return text + ". "


def main():
    directory, sweep = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("*.json"))]
    cells = [Cell(record) for record in records if record["status"] == "ok"]
    missing = len(records) - len(cells)
    if not cells:
        sys.exit(f"{directory}: no cells")
    for what in ("commit", "processor", "instruction_set"):
        if len({cell.environment[what] for cell in cells}) > 1:
            sys.exit(f"{directory}: cells of several kinds of {what}; a table is made by one version on one machine")
    lines = sweep.read_text(encoding="utf-8").splitlines()
    order = [match[1] for match in (re.search(r'^\s+- \{name: "([^"]*)"', line) for line in lines[lines.index("list:") :]) if match]
    evaluations = list(dict.fromkeys(match[1] or match[2] for match in (
        re.search(r'^\s+- \{name: (?:"([^"]*)"|([^,]*)), use:', line) for line in lines) if match))
    models = [match[1] for match in (re.search(r"^  - \{path: .*name: ([^ },]*)\}", line) for line in lines) if match]
    environment = cells[0].environment
    print(f"# {lines[0].lstrip('# ').rstrip('.')}\n")
    drawn = any(cell.seed for cell in cells)
    error = "deviation from draw to draw" if drawn else "standard error from window means"
    draws = len({cell.seed for cell in cells})
    within = f"{undecided_within(draws):.2f} standard errors of {draws} draws (Student's t)" if drawn else "two standard errors"
    sweep_hash = hashlib.sha256(sweep.read_bytes())
    recipes = list(dict.fromkeys(re.findall(r"recipe: ([^ ,}]+\.yaml)", "\n".join(lines))))
    for recipe in recipes:  # named from the repository's directory, as the sweep's other paths
        sweep_hash.update(pathlib.Path(recipe).read_bytes())
    hashed = "the sweep and its recipes" if recipes else "the sweep"
    alone = directory.name.removeprefix(f"{sweep.stem}-")  # scripts/evidence.sh --model
    arguments = f"--model {alone} {sweep.stem}" if alone != directory.name else sweep.stem
    loss = " and loss (over the float model)" if any(cell.recipe == "float" for cell in cells) else ""
    if "-" in environment["commit"]:
        sys.exit(f"these cells are of a program with changes that no commit has ({environment['commit']}): commit, build, and make them anew")
    print(f"Made by `scripts/evidence.sh {arguments}` (sha256 of {hashed} {sweep_hash.hexdigest()[:12]}) with the program of commit "
          f"{environment['commit'][:7]}, {environment['processor']} ({environment['instruction_set']}); do not edit. {calibration_of(cells)}"
          f"KL(float ‖ quantized){loss} in millinats per token ± {error}; what is inside {within} is "
          "undecided, † of the row above. Bits count everything stored, of the linear layers and of the whole model. "
          "Columns of a use hold all texts of that use together; differences, †, and loss are of test text where there is any, else "
          "of the column on the right. Rows without a reference of their own (\"windowed, without scaling\": `windowed`) are "
          "compared with `best` (`best-2-bit` where it is there, or `best-one-shot`) of their width. Seconds are of one thread, where text runs through the model (drift, tuning, probes) of all, of a machine shared with other work.\n")
    if missing:
        print(f"**{missing} cells failed and are missing.**\n")
    lost, lacking = [], []
    for model in dict.fromkeys(cell.model for cell in sorted(cells, key=lambda c: models.index(c.model))):
        mine = [cell for cell in cells if cell.model == model]
        by_recipe = {}
        for cell in mine:
            by_recipe.setdefault(cell.recipe, []).append(cell)
        rows = {name: Row(by_recipe[name]) for name in order if name in by_recipe}
        floats = Row(by_recipe["float"]) if "float" in by_recipe else None
        texts = {}
        for cell in mine:
            texts.setdefault(cell.use or cell.evaluation, set()).add(cell.evaluation)
        for row in rows.values():
            row.complete(texts)
        lacking += [f"{model}, {name}" for name in order if name not in rows or lacks(rows[name], rows)]
        columns = list(dict.fromkeys(column for row in rows.values() for column in row.columns))
        columns.sort(key=lambda column: (column[0] == "test", column))
        decisive = next((column for column in columns if column[0] == "test"), columns[-1])
        counts = {cell.evaluation: len(cell.losses) for cell in mine}
        print(f"## {model}\n\n" + "Windows: " + ", ".join(f"{name} {counts[name]}" for name in evaluations if name in counts)
              + ".\n")
        for width in dict.fromkeys(name.partition(": ")[0] for name in rows):
            of_width = {name: row for name, row in rows.items() if name.startswith(width + ": ")}
            print(f"### {model}, {width}\n")
            print("\n".join(table(of_width, columns, decisive, floats)) + "\n")
            for column in columns:
                said = f" ({heading(column)})" if len(columns) > 1 else ""
                lost += [f"{model}, {name}{said}" for name in beaten(of_width, column)]
    kept = [f"{cell.model}, {cell.recipe}: {cell.tuning['best_epoch']} of {len(cell.tuning['trained_loss'])}"
            for cell in sorted(cells, key=lambda c: (c.model, c.recipe)) if cell.tuning]
    if kept:
        print("Epochs of tuning that were kept: " + "; ".join(dict.fromkeys(kept)) + ".\n")
    if lacking:
        print("Not measured in this run, in whole or in part: " + "; ".join(lacking) + ".\n")
    widths = dict.fromkeys(name.partition(": ")[0] for name in order)
    named = dict.fromkeys(best.partition(": ")[2] for best in (best_of(width, order) for width in widths) if best)
    if named:
        print(f"Methods of no more bits than {' or '.join(f'`{best}`' for best in named)} whose KL is lower by more than {within}: "
              + (", ".join(lost) or "none") + ".")


if __name__ == "__main__":
    main()
