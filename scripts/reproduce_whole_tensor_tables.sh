#!/usr/bin/env bash
# Repeats published tables with one command and puts them beside the published figures. What decides the results is in
# the sweep file that this writes; the work is `nibble sweep`, the tables are `nibble report`.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/reproduce_whole_tensor_tables.sh [OPTION…] MODEL…

MODEL names a checkpoint that scripts/fetch_checkpoint.sh fetches (gpt2 gpt2-medium gpt2-large gpt2-xl; with --llama
llama-7b, llama-13b as directories under models/). The result is build/published/report.html, .md, .tex and .csv.
A run that was interrupted goes on where it stopped when the same command is given again.

  --models DIR…       these checkpoint directories instead (all that follows), under their own names
  --llama             GPTQ's and SqueezeLLM's Llama tables (blocks of 2048, WikiText-2 and C4's validation split) instead
                      of the post's (sliding, 1024/512)
  --context N         the context to evaluate with (default 1024, with --llama 2048; at most the model's)
  --max-tokens N      evaluate the first N tokens only: to try it out
  --samples N         calibration windows (default 100 of 512 tokens, as published; with --llama 128 of 2048)
  --calibration FILE  text to calibrate on (default data/c4/…, the first shard of C4)
  --text FILE         text to evaluate on (default data/wikitext-2-raw/wiki.test.raw)
  --c4 FILE           with --llama: text for the C4 columns (default data/c4-validation/…); "none" leaves them out
  --out DIR           where results go (default build/published)
  --threads N, --memory SIZE   as for `nibble sweep`

Differences from the post that are known: documents and places of the calibration windows are drawn with this program's
generator, not Python's; gradients are float32, not bfloat16; the mean inputs come from the windows of the Fisher
sensitivities (seed 0, 512 tokens), not from others (seed 42, 1024 tokens).
TEXT
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
nibble=${NIBBLE:-build/release/cli/nibble}
text=data/wikitext-2-raw/wiki.test.raw
calibration=
context=
max_tokens=
samples=
c4=data/c4-validation/c4-validation-1100.txt
llama=no
out=build/published
limits=()
names=()
directories=()

while [[ $# -gt 0 ]]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --llama) llama=yes; shift ;;
    --context) context=$2; shift 2 ;;
    --max-tokens) max_tokens=$2; shift 2 ;;
    --samples) samples=$2; shift 2 ;;
    --calibration) calibration=$2; shift 2 ;;
    --text) text=$2; shift 2 ;;
    --c4) c4=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --threads | --memory) limits+=("$1" "$2"); shift 2 ;;
    --models) shift; directories=("$@"); shift $# ;;
    -*) echo "unknown option $1" >&2; usage >&2; exit 2 ;;
    *) names+=("$1"); shift ;;
  esac
done
for name in "${names[@]}"; do
  [[ -d models/$name ]] || scripts/fetch_checkpoint.sh "$name"
  directories+=("models/$name")
done
if [[ ${#directories[@]} -eq 0 ]]; then
  usage >&2
  exit 2
fi
[[ -x $nibble ]] || { echo "build first: cmake --preset release && cmake --build --preset release" >&2; exit 1; }
if [[ -z $calibration ]]; then
  calibration=data/c4/c4-train.00000-of-01024.jsonl.gz
  [[ -e $calibration ]] || scripts/fetch_checkpoint.sh c4
fi
[[ -e $text ]] || scripts/fetch_checkpoint.sh wikitext-2-raw
[[ $llama == no || $c4 == none || -e $c4 ]] || scripts/fetch_checkpoint.sh c4-validation

# One sweep file per context: a model may have fewer positions than the protocol wants.
if [[ $llama == yes ]]; then
  wanted=${context:-2048}; samples=${samples:-128}; length=2048; protocol=blocks; figures=llama
else
  wanted=${context:-1024}; samples=${samples:-100}; length=512; protocol=sliding; figures=whole_tensor
fi
positions_of() {
  python3 -c 'import json, sys; c = json.load(open(sys.argv[1] + "/config.json")); print(c.get("n_positions") or c["max_position_embeddings"])' "$1"
}

recipes_of_the_post() {
  cat <<'YAML'
defaults: {format: palette, bits: 4, granularity: tensor}
list:
  - float
  - {name: Naive}
  - {name: Weighting, weighting: fisher}
  - {name: Scaling, scaling: std, sign: flip}
  - {name: Shifting, shifting: true}
  - {name: Weighting + Scaling, weighting: fisher, weighting_scale: plain, scaling: std, sign: flip}
  - {name: Weighting + Shifting, weighting: fisher, shifting: true}
  - {name: Scaling + Shifting, scaling: std, sign: flip, shifting: true}
  - {name: Weighting + Scaling + Shifting, preset: whole-tensor}
  - {name: GPTQ, preset: gptq}
YAML
}

recipes_of_llama() {
  cat <<'YAML'
defaults: {format: uniform, group_size: 0, zero_point: true}
list:
  - float
  - {name: RTN 4-bit, bits: 4}
  - {name: GPTQ 4-bit, preset: gptq, bits: 4}
  - {name: "GPTQ 4-bit, groups of 128", preset: gptq, bits: 4, group_size: 128}
  - {name: SqueezeLLM 4-bit, preset: squeezellm, bits: 4}
  - {name: "SqueezeLLM 4-bit, 0.45 % sparse", preset: squeezellm, bits: 4, outliers_sensitive: 0.0005, outliers_large: 0.004}
  - {name: RTN 3-bit, bits: 3}
  - {name: GPTQ 3-bit, preset: gptq, bits: 3}
  - {name: "GPTQ 3-bit, groups of 128", preset: gptq, bits: 3, group_size: 128}
  - {name: SqueezeLLM 3-bit, preset: squeezellm, bits: 3}
  - {name: "SqueezeLLM 3-bit, 0.45 % sparse", preset: squeezellm, bits: 3, outliers_sensitive: 0.0005, outliers_large: 0.004}
YAML
}

# evaluation NAME FILE CONTEXT TOKENS: an entry of `evaluations`. The published figures know texts by the names' first word.
evaluation() {
  echo "  - name: \"$1, $protocol $3${4:+, first $4 tokens}\""
  echo "    text: \"$2\""
  [[ $2 != *.raw ]] || echo "    hf_join: true"
  echo "    protocol: $protocol"
  echo "    context: $3"
  [[ $protocol != sliding ]] || echo "    stride: $(($3 / 2))"
  [[ -z $4 ]] || echo "    max_tokens: $4"
}

text_name=$(basename "$text")
[[ $text_name != wiki.test.raw ]] || text_name=WikiText-2
c4_name=$(basename "$c4")
[[ $c4_name != c4* ]] || c4_name=C4
mkdir -p "$out"
results=()
for directory in "${directories[@]}"; do
  name=$(basename "$directory")
  positions=$(positions_of "$directory")
  use=$((wanted < positions ? wanted : positions))
  [[ $use -eq $wanted ]] || echo "$name has $positions positions: context $use, not comparable with context $wanted" >&2
  sweep=$out/$name.yaml
  {
    echo "models: [{path: \"$directory\", name: \"$name\"}]"
    echo "calibration: {text: [\"$calibration\"], samples: $samples, length: $((length < positions ? length : positions)), seed: 0}"
    echo "evaluations:"
    evaluation "$text_name" "$text" "$use" "$max_tokens"
    # As GPTQ's code has it: the documents joined by a space, 256 blocks of them.
    [[ $llama == no || $c4 == none ]] || evaluation "$c4_name" "$c4" "$use" "${max_tokens:-$((256 * use))}"
    if [[ $llama == yes ]]; then recipes_of_llama; else recipes_of_the_post; fi
  } >"$sweep"
  "$nibble" sweep "$sweep" -o "$out/$name" "${limits[@]}"
  results+=("$out/$name")
done

"$nibble" report "${results[@]}" --published "scripts/published/$figures.json" --rows recipe --columns model \
  -o "$out/report.html" -o "$out/report.md" -o "$out/report.tex" -o "$out/report.csv"
