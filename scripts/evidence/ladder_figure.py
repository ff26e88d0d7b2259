#!/usr/bin/env python3
"""Draws docs/results/evidence/ladder.svg from the table beside it: KL divergence over training tokens, by method and width.

    pip install matplotlib
    scripts/evidence/ladder_figure.py          # from the repository's directory
"""
import pathlib

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "ladder", "svg.fonttype": "none", "font.size": 9})
import matplotlib.pyplot as plt  # noqa: E402

from check_tables import read_table  # noqa: E402

TABLE = pathlib.Path("docs/results/evidence/ladder.md")


def read(table):
    """{width: {method: [(tokens per parameter, KL on test text, its standard error)]}}"""
    curves = {}
    for row in read_table(table):
        width, _, method = row.name.partition(": ")
        point = (float(row.model.removeprefix("ladder-")), *row.figures["test"][:2])
        curves.setdefault(width, {}).setdefault(method, []).append(point)
    return curves


def main():
    curves = read(TABLE)
    figure, panels = plt.subplots(1, len(curves), figsize=(9, 3.6), sharex=True, layout="constrained")
    methods = sorted(next(iter(curves.values())), key=lambda method: curves["4 bits"][method][-1][1])
    colours = dict(zip(methods, plt.get_cmap("tab10").colors))
    for panel, (width, of_width) in zip(panels, curves.items()):
        for method in methods:
            ratios, divergences, errors = zip(*of_width[method])
            panel.errorbar(ratios, divergences, yerr=errors, label=method, color=colours[method], marker="o", markersize=3)
        panel.set(title=width, xscale="log", yscale="log", xlabel="training tokens per parameter")
        panel.set_xticks(ratios, [f"{ratio:g}" for ratio in ratios])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("KL divergence, millinats per token")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(TABLE.with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
