#!/usr/bin/env bash
# What a KL divergence costs where the float model's states are kept: `evaluate_seconds` of a sweep's cells with
# `divergence: true` over those of the same models without it, one thread, in turn in every round; medians of the rounds' ratios.
# 1.3 is the aim. Wants a machine with nothing else to do. Results: docs/results/sweep.md.
# Usage: tests/bench/divergence_cost.sh [MODEL TEXT]    (NIBBLE=PROGRAM, ROUNDS=N: 3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
nibble=$(realpath "${NIBBLE:-build/release/cli/nibble}")
model=$(realpath "${1:-../shared/models/llama-novels}") text=$(realpath "${2:-../shared/data/novels/Conrad_Almayer_1895.txt}")
work=$(mktemp -d "${TMPDIR:-/tmp}/nibble-divergence-cost-XXXXXX")
trap 'rm -rf "$work"' EXIT

for kind in with without; do
  divergence=$([[ $kind == with ]] && echo true || echo false)
  cat >"$work/$kind.yaml" <<YAML
models: [$model]
evaluations: [{name: text, text: $text, protocol: blocks, context: 512, max_tokens: 16384, divergence: $divergence}]
list: [{preset: int4-block}, {format: uniform, bits: 4, group_size: 32}, {format: uniform, bits: 3, group_size: 32}]
YAML
done
for round in $(seq "${ROUNDS:-3}"); do
  for kind in without with; do
    # The cache is kept, so that all but the first round find the states of the float model.
    "$nibble" sweep "$work/$kind.yaml" -o "$work/$kind-$round" --cache "$work/cache" --threads 1 -q >/dev/null
  done
done
"$nibble" version | sed -n 's/^instruction set */tier: /p'
python3 - "$work" "${ROUNDS:-3}" <<'PYTHON'
import json
import pathlib
import statistics
import sys

work, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2])


def seconds(kind, number):
    records = [json.loads(path.read_text()) for path in (work / f"{kind}-{number}").glob("*.json")]
    return {record["labels"]["recipe"]: record["timings"]["evaluate_seconds"] for record in records}


ratios = []
for number in range(1, rounds + 1):
    without, with_divergence = seconds("without", number), seconds("with", number)
    ratios += [with_divergence[recipe] / without[recipe] for recipe in sorted(without)]
print(f"perplexity and divergence over perplexity alone: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
      f"{len(ratios)} pairs of cells")
PYTHON
