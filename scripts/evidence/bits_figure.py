#!/usr/bin/env python3
"""Draws docs/results/evidence/drift.svg from the table beside it: KL divergence and loss over all-in bits of the linears, and KL over
those of the whole model, one column for each model.

    pip install matplotlib
    scripts/evidence/bits_figure.py          # from the repository's directory
"""
import pathlib

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "bits", "svg.fonttype": "none", "font.size": 9})
import matplotlib.pyplot as plt  # noqa: E402

from check_tables import FIGURE, read_table  # noqa: E402

TABLE = pathlib.Path("docs/results/evidence/drift.md")
# Lines through the widths of a method; others are points.
LINES = {"best": "best", "windowed": "windowed", "scalar": "scalar", "best-one-shot": "best-one-shot",
         "GPTQ, groups of 32, drift corrected": "GPTQ, groups of 32, drift corrected", "GPTQ, groups of 32": "GPTQ, groups of 32", "GPTQ, rows": "GPTQ, rows",
         "SqueezeLLM, dense": "SqueezeLLM", "whole tensor, as published": "whole tensor, as published"}
POINTS = {"Q4_0": "x", "Q4_1": "+", "IQ4_NL": "*", "IQ4_NL, solved, drift corrected": "D"}
PANELS = [("bits", "test", "KL divergence, millinats per token"), ("bits", "loss", "loss over the float model, millinats"),
          ("whole model", "test", "KL divergence, millinats per token")]
AXES = {"bits": "bits per weight of the linears, all-in", "whole model": "bits per weight of the whole model, all-in"}


def figure_of(field):
    match = FIGURE.match(field.lstrip("+"))
    return float(match["value"]), float(match["error"])


def curve(rows, method, over, what):
    """(bits, value, error) of a method's rows, narrowest first. A loss that is not above zero has no place on a log scale."""
    points = [(float(row.fields[over]), *figure_of(row.fields[what])) for row in rows
              if row.fields["method"] == method and not row.fields[what].startswith("-")]
    return sorted(points)


def main():
    rows = read_table(TABLE)
    models = list(dict.fromkeys(row.model for row in rows))
    figure, panels = plt.subplots(len(PANELS), len(models), figsize=(9, 10), layout="constrained")
    colours = dict(zip([*LINES, *POINTS], plt.get_cmap("tab20").colors[::2] + plt.get_cmap("tab20").colors[1::2]))
    for line, (over, what, label) in zip(panels, PANELS):
        for panel, model in zip(line, models):
            mine = [row for row in rows if row.model == model]
            for method, shown in LINES.items():
                bits, values, errors = zip(*curve(mine, method, over, what))
                panel.errorbar(bits, values, yerr=errors, label=shown, color=colours[method], marker="o", markersize=3)
            for method, marker in POINTS.items():
                points = curve(mine, method, over, what)
                panel.plot(*zip(*[point[:2] for point in points]), marker, label=method, color=colours[method], markersize=6)
            panel.set(title=model, yscale="log", xlabel=AXES[over])
            panel.grid(alpha=0.3)
        line[0].set_ylabel(label)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(TABLE.with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
