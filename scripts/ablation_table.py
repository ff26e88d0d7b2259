"""Tables of scripts/ablate_shared_models.sh: ablation_table.py OUT [BASELINES.md]"""

import json
import math
import pathlib
import re
import sys

MODELS = ["gpt2-novels", "llama-novels"]
WIDTHS = ["4", "3", "2", "4.5", "5"]  # in the order of the tables
UNIFORM = "GPTQ, uniform"
WHOLE = "GPTQ with a whole-tensor palette"


def read_baselines(path):
    """{model: {(bits, method): loss in millinats}}"""
    losses = {model: {} for model in MODELS}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        fields = [field.strip() for field in line.strip().strip("|").split("|")]
        if len(fields) == 6 and re.fullmatch(r"[0-9.]+", fields[0]):
            for model, loss in zip(MODELS, (fields[3], fields[5])):
                losses[model][fields[0], fields[1]] = float(loss)
    return losses


def target(bits, method, baselines):
    """The largest loss that is asked for, or None."""
    if (bits, method) in baselines:  # 0.3 % of its perplexity
        return baselines[bits, method] + 1000 * math.log(1.003)
    if not baselines or not method.endswith(": best"):
        return None
    if method.startswith("whole-tensor"):
        gptq = min(loss for (b, name), loss in baselines.items() if b == bits and name.startswith((UNIFORM, WHOLE)))
        return gptq if bits == "4" else 0.8 * gptq
    if method.startswith("per-row"):
        return min(loss for (b, _), loss in baselines.items() if b == bits)
    return 0.5 * baselines["4.5", "block int4, 32, extreme/−8 (Q4_0)"]


def rows_of(out, model, baselines):
    float_perplexity = json.loads((out / f"{model}.float.json").read_text())["perplexity"]
    cells = sorted((out / model).iterdir(), key=lambda cell: cell.stat().st_mtime)
    for cell in sorted(cells, key=lambda cell: WIDTHS.index(cell.name.split(" ")[0])):
        bits, method = cell.name.replace("|", "/").split(" ", 1)
        perplexity = json.loads((cell / "perplexity.json").read_text())["perplexity"]
        quantized = json.loads((cell / "quantize.json").read_text())
        loss = 1000 * math.log(perplexity / float_perplexity)
        baseline, most = baselines.get((bits, method)), target(bits, method, baselines)
        yield (
            bits,
            method,
            f"{perplexity:.4f}",
            f"{loss:.2f}",
            "" if baseline is None else f"{baseline:.2f}",
            "" if most is None else f"{'≤' if loss <= most else '**missed:**'} {most:.2f}",
            f"{quantized['bits_per_weight']:.4f}",
            f"{quantized['seconds']:.1f}",
        )


def main():
    out = pathlib.Path(sys.argv[1])
    baselines = read_baselines(sys.argv[2]) if len(sys.argv) > 2 else {model: {} for model in MODELS}
    for model in MODELS:
        if not (out / model).is_dir():
            continue
        print(f"\n### {model}\n")
        print("| bits | method | perplexity | loss | baseline | target | bits per weight | seconds |")
        print("|---|---|---|---|---|---|---|---|")
        for row in rows_of(out, model, baselines[model]):
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
