#!/usr/bin/env python3
"""Differences of KL divergence between cells of the same model, name and evaluation of two sweeps, or of two models
of one, paired by window.

    scripts/evidence/differences.py build/evidence/fisher_text-llama-novels build/evidence/fisher_position-llama-novels
    scripts/evidence/differences.py build/evidence/rotation llama-novels-rotated llama-novels      (models of one sweep)

Prints B less A (or THAN) in millinats with the standard error of the mean over windows, "undecided" inside two of these. What only
one of them has is left out. Both sweeps must have measured the same windows.
"""

import argparse
import json
import pathlib

from evidence_table import UNDECIDED, mean_and_error


def windows_of(directory):
    cells = {}
    for file in sorted(pathlib.Path(directory).glob("*.json")):
        record = json.loads(file.read_text())
        divergence = (record.get("measures") or {}).get("divergence") if record.get("status") == "ok" else None
        if divergence:
            labels = record["labels"]
            if "window_tokens" in record["measures"]:
                raise SystemExit(f"{file}: expected windows of one length, as `blocks` gives; `nibble diff` weighs others")
            cells[labels["model"], labels["recipe"], labels["evaluation"]] = divergence["window_nats"]
    return cells


def difference(before, after):
    if len(before) != len(after):
        raise SystemExit(f"expected the same windows, got {len(before)} and {len(after)}")
    return mean_and_error([1000 * (b - a) for a, b in zip(before, after)])


def of_model(cells, model):
    mine = {("", recipe, evaluation): nats for (name, recipe, evaluation), nats in cells.items() if name == model}
    if not mine:
        raise SystemExit(f"no cells of a model '{model}'; there are {', '.join(sorted({name for name, _, _ in cells}))}")
    return mine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", help="directory of a sweep's records")
    parser.add_argument("b", help="directory of another's, or a model's name")
    parser.add_argument("than", nargs="?", help="with it, both are models of the sweep in A: what B has less THAN")
    arguments = parser.parse_args()
    if arguments.than is None:
        a, b = windows_of(arguments.a), windows_of(arguments.b)
    else:
        cells = windows_of(arguments.a)
        a, b = of_model(cells, arguments.than), of_model(cells, arguments.b)
    both = [cell for cell in a if cell in b]
    if not both:
        raise SystemExit("no cell is in both")
    for cell in sorted(both):
        mean, error = difference(a[cell], b[cell])
        print(f"{', '.join(filter(None, cell))}: {mean:+.4f} ± {error:.4f}{', undecided' if abs(mean) <= UNDECIDED * error else ''}")


if __name__ == "__main__":
    main()
