#!/usr/bin/env bash
# Repeats published tables with one command and puts them beside the published figures and beside what we expect, which
# it says before it begins. What decides the results is in the sweep file that this writes; the work is `nibble sweep`,
# the tables are `nibble report`, figures and expectations are in scripts/published/.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/reproduce_whole_tensor_tables.sh [OPTION…] MODEL…

MODEL names a checkpoint that scripts/fetch_checkpoint.sh fetches (gpt2 gpt2-medium gpt2-large gpt2-xl; with --llama
llama-7b, llama-13b as directories under models/; with --llama32 llama-3.2-1b, which needs HF_TOKEN of somebody who has
accepted its licence; a directory that you have is given with --models). The result is build/published/report.html, .md,
.tex and .csv. A run that was interrupted goes on where it stopped when the same command is given again.

Before any work it prints what we expect, as ranges, and at the end how many cells lie inside. Nobody has run it on these
checkpoints yet: your run is a test of us.

  --expect            print what is expected (of MODELs, else of all) and end; needs no checkpoint
  --models DIR…       these checkpoint directories instead (up to the next option); a directory's name, in small letters, is
                      its model's: figures are found by it
  --llama             GPTQ's and SqueezeLLM's Llama tables (blocks of 2048, WikiText-2 and C4's validation split) instead
                      of the post's (sliding, 1024/512)
  --llama32           Llama-3.2-1B (blocks of 2048, WikiText-2, KL divergence from the float model besides): plain
                      formats, GPTQ, SqueezeLLM, the post's method and the presets scalar-one-shot, best-one-shot and best at 4, 3 and 2 bits
                      (best sends the calibration text through the model a few times for each width)
  --context N         the context to evaluate with (default 1024, with --llama… 2048; at most the model's)
  --max-tokens N      evaluate the first N tokens only: to try it out
  --samples N         calibration windows (default 100 of 512 tokens, as published; with --llama… 128 of 2048)
  --calibration FILE  text to calibrate on (default data/c4/…, the first shard of C4)
  --text FILE         text to evaluate on (default data/wikitext-2-raw/wiki.test.raw)
  --c4 FILE           with --llama: text for the C4 columns (default data/c4-validation/…); "none" leaves them out
  --out DIR           where results go (default build/published)
  --threads N, --memory SIZE   as for `nibble sweep`

Ranges hold for runs without --context, --max-tokens, --samples, --calibration, --text and --c4 FILE.

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
mode=post
expect_only=no
trial=()
out=build/published
limits=()
names=()
directories=()

while [[ $# -gt 0 ]]; do
  case $1 in
    --context | --max-tokens | --samples | --calibration | --text | --c4 | --out | --threads | --memory)
      [[ $# -ge 2 ]] || { echo "$1: expected a value" >&2; usage >&2; exit 2; }
      ;;
  esac
  case $1 in
    --help | -h) usage; exit 0 ;;
    --expect) expect_only=yes; shift ;;
    --llama) mode=llama; shift ;;
    --llama32) mode=llama32; shift ;;
    --context) context=$2; trial+=("$1"); shift 2 ;;
    --max-tokens) max_tokens=$2; trial+=("$1"); shift 2 ;;
    --samples) samples=$2; trial+=("$1"); shift 2 ;;
    --calibration) calibration=$2; trial+=("$1"); shift 2 ;;
    --text) text=$2; trial+=("$1"); shift 2 ;;
    --c4) c4=$2; [[ $2 == none ]] || trial+=("$1"); shift 2 ;;
    --out) out=$2; shift 2 ;;
    --threads | --memory) limits+=("$1" "$2"); shift 2 ;;
    --models)
      shift
      while [[ $# -gt 0 && $1 != -* ]]; do directories+=("$1"); shift; done
      [[ ${#directories[@]} -gt 0 ]] || { echo "--models: expected directories" >&2; usage >&2; exit 2; }
      ;;
    -*) echo "unknown option $1" >&2; usage >&2; exit 2 ;;
    *) names+=("$1"); shift ;;
  esac
done
case $mode in
  post) wanted=${context:-1024}; samples=${samples:-100}; length=512; protocol=sliding; figures=whole_tensor ;;
  llama) wanted=${context:-2048}; samples=${samples:-128}; length=2048; protocol=blocks; figures=llama ;;
  llama32)
    wanted=${context:-2048}; samples=${samples:-128}; length=2048; protocol=blocks; figures=llama32; c4=none
    [[ ${#names[@]} -gt 0 || ${#directories[@]} -gt 0 ]] || names=(llama-3.2-1b)
    ;;
esac
figures=scripts/published/$figures.json

# name_of DIRECTORY: the model's name in sweeps and figures.
name_of() {
  local name
  name=$(basename "$1")
  echo "${name,,}"
}

# print_expectations FILE [MODEL…]: what is expected of these models, or of all, table by table.
print_expectations() {
  python3 - "$@" <<'PYTHON'
import json
import sys
import textwrap


def wrapped(text, indent=""):
    return textwrap.fill(text, 120, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


with open(sys.argv[1], encoding="utf-8") as file:
    published = json.load(file)
wanted = sys.argv[2:]
known = {figure["model"] for table in published["tables"] for figure in table["figures"]}
for name in wanted:
    if name not in known:
        print(f"Of {name} we know no published figure and expect nothing.\n")
for table in published["tables"]:
    cells = [figure for figure in table["figures"] if not wanted or figure["model"] in wanted]
    if not cells:
        continue
    print(f"{published['title']}, {table['title']}; {table['expected_for']}")
    rows = [("model", "recipe", "published", "expected perplexity")]
    for cell in cells:
        expected = "{} to {}".format(*cell["expected"]) if "expected" in cell else "–"
        rows.append((cell["model"], cell["recipe"], str(cell.get("perplexity", "–")), expected))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for model, recipe, figure, expected in rows:
        print(f"  {model:{widths[0]}}  {recipe:{widths[1]}}  {figure:>{widths[2]}}  {expected}")
    print(wrapped(table["why"], "  ") + "\n")
if not wanted or known & set(wanted):
    print(wrapped("Source: " + published["source"]) + "\n")
PYTHON
}

named=()
for name in "${names[@]}" "${directories[@]}"; do named+=("$(name_of "$name")"); done
if [[ $expect_only == yes ]]; then
  print_expectations "$figures" "${named[@]}"
  exit 0
fi
if [[ ${#named[@]} -eq 0 ]]; then
  usage >&2
  exit 2
fi
[[ -x $nibble ]] || { echo "build first: cmake --preset release && cmake --build --preset release" >&2; exit 1; }
say_if_trial() {
  [[ ${#trial[@]} -eq 0 ]] ||
    echo "This is not the published protocol (${trial[*]}): what is published and expected is not said of such a run."
}
print_expectations "$figures" "${named[@]}"
say_if_trial
for name in "${names[@]}"; do
  directory=models/${name##*/}
  # Nothing, where it is complete. Status 2: a name that it does not know, of a checkpoint of yours (llama-7b).
  status=0
  scripts/fetch_checkpoint.sh "$name" "$directory" || status=$?
  [[ $status -eq 0 || ( $status -eq 2 && -e $directory/config.json ) ]] || exit "$status"
  directories+=("$directory")
done
if [[ -z $calibration ]]; then
  calibration=data/c4/c4-train.00000-of-01024.jsonl.gz
  [[ -e $calibration ]] || scripts/fetch_checkpoint.sh c4
fi
[[ -e $text ]] || scripts/fetch_checkpoint.sh wikitext-2-raw
[[ $mode != llama || $c4 == none || -e $c4 ]] || scripts/fetch_checkpoint.sh c4-validation

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
  - {name: GPTQ, preset: gptq, group_size: 128, act_order: false}
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

recipes_of_llama32() {
  cat <<'YAML'
defaults: {format: uniform, bits: 4, group_size: 128, zero_point: true}
list:
  - float
  - {name: "RTN 4-bit, groups of 128"}
  - {name: GPTQ 4-bit, preset: gptq}
  - {name: "GPTQ 4-bit, groups of 128", preset: gptq, group_size: 128}
  - {name: Q4_0, preset: int4-block}
  - {name: NF4, preset: nf4}
  - {name: "NF4, groups of 128", preset: nf4, group_size: 128, search: none}
  - {name: SqueezeLLM 4-bit, preset: squeezellm}
  - {name: "SqueezeLLM 4-bit, 0.5 % sparse", preset: squeezellm, outliers_sensitive: 0.0005, outliers_large: 0.0045}
  - {name: SqueezeLLM 3-bit, preset: squeezellm, bits: 3}
  - {name: "SqueezeLLM 3-bit, 0.5 % sparse", preset: squeezellm, bits: 3, outliers_sensitive: 0.0005, outliers_large: 0.0045}
  - {name: whole tensor 4-bit, preset: whole-tensor}
  - {name: scalar-one-shot 4-bit, preset: scalar-one-shot}
  - {name: scalar-one-shot 3-bit, preset: scalar-one-shot, bits: 3}
  - {name: scalar-one-shot 2-bit, preset: scalar-one-shot, bits: 2}
  - {name: best-one-shot 4-bit, preset: best-one-shot}
  - {name: best-one-shot 3-bit, preset: best-one-shot, bits: 3}
  - {name: best-one-shot 2-bit, preset: best-one-shot, bits: 2}
  - {name: best 4-bit, preset: best}
  - {name: best 3-bit, preset: best, bits: 3}
  - {name: best 2-bit, preset: best, bits: 2}
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
  [[ $mode != llama32 ]] || echo "    divergence: true"
}

text_name=$(basename "$text")
[[ $text_name != wiki.test.raw ]] || text_name=WikiText-2
c4_name=$(basename "$c4")
[[ $c4_name != c4* ]] || c4_name=C4
mkdir -p "$out"
results=()
failed=0
for directory in "${directories[@]}"; do
  name=$(name_of "$directory")
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
    [[ $mode != llama || $c4 == none ]] || evaluation "$c4_name" "$c4" "$use" "${max_tokens:-$((256 * use))}"
    case $mode in
      post) recipes_of_the_post ;;
      llama) recipes_of_llama ;;
      llama32) recipes_of_llama32 ;;
    esac
  } >"$sweep"
  status=0
  "$nibble" sweep "$sweep" -o "$out/$name" "${limits[@]}" || status=$?
  case $status in
    0) ;;
    4) failed=4 ;;  # cells failed, which the report lists; the others are there
    *) exit "$status" ;;
  esac
  results+=("$out/$name")
done

"$nibble" report "${results[@]}" --published "$figures" --rows recipe --columns model \
  -o "$out/report.html" -o "$out/report.md" -o "$out/report.tex" -o "$out/report.csv"
say_if_trial
exit "$failed"
