#!/usr/bin/env bash
# From a fresh clone to numbers: installs what is missing, builds those commands of the program that it runs, quantizes the two
# demo models in several ways and prints size, KL divergence from the float model and perplexity of each, with a little of what
# they write. Everything lands in build/demo/; the figures are the program's own JSON output, here only laid out as a table.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
# How far ninja is: one line that is rewritten on a terminal, else one for every tenth.
show_progress() {
  awk -v terminal="$1" '
    match($0, /^\[[0-9]+\/[0-9]+\]/) {
      split(substr($0, 2, RLENGTH - 2), part, "/")
      tenth = int(10 * part[1] / part[2])
      if (terminal) printf "\rdemo: building, %d of %d", part[1], part[2]
      else if (tenth > shown) printf "demo: building, %d of %d\n", part[1], part[2]
      shown = tenth
      fflush()
    }
    END { if (terminal) print "" }'
}

echo "demo: building (a few minutes the first time)"
cmake --preset release >/dev/null
terminal=
[[ ! -t 1 ]] || terminal=1
cmake --build --preset release --target nibble_demo 2>&1 | tee build/demo-build.log | show_progress "$terminal" ||
  { cat build/demo-build.log; exit 1; }

nibble=build/release/cli/nibble-demo
out=build/demo
prompt="He opened the door and"
quiet=()
[[ -t 2 ]] || quiet=(--quiet)  # progress bars are for people
rm -rf "$out"
mkdir -p "$out"

# name | what the table calls it | arguments of `nibble quantize`
methods=(
  "palette-4-tensor|palette 4-bit, one per tensor|--preset palette"
  "palette-4-channel|palette 4-bit, one per row|--preset palette --set granularity=channel"
  "palette-3-channel|palette 3-bit, one per row|--preset palette --set granularity=channel --set bits=3"
  "int4-block-extreme8|int4 blocks of 32, extreme/-8|--preset int4-block"
  "int4-block-minmax|int4 blocks of 32, min-max|--preset int4-block --set int4_scale=minmax --set zero_point=true"
  "uniform-4-row|uniform 4-bit rows, min-max|--set format=uniform --set zero_point=true"
)

# evaluate MODEL_DIRECTORY PREFIX [OPTION…]: perplexity and a few generated lines, as JSON beside each other.
evaluate() {
  "$nibble" perplexity "$1" --text datasets/demo/eval.txt --json "${@:3}" "${quiet[@]}" >"$2.perplexity.json"
  "$nibble" generate "$1" --prompt "$prompt" -n 48 --temperature 0.6 --top-p 0.9 --seed 1 --json >"$2.generate.json"
}

for model in gpt2-demo llama-demo; do
  mkdir -p "$out/$model"
  echo "demo: $model"
  evaluate "datasets/demo/$model" "$out/$model/float"
  for method in "${methods[@]}"; do
    IFS='|' read -r name _ settings <<<"$method"
    read -ra arguments <<<"$settings"
    "$nibble" quantize "datasets/demo/$model" "${arguments[@]}" -o "$out/$model/$name" --json "${quiet[@]}" \
      >"$out/$model/$name.quantize.json"
    evaluate "$out/$model/$name" "$out/$model/$name" --reference "datasets/demo/$model"
  done
done

python3 - "$out" "float|float16, as it is|" "${methods[@]}" <<'PYTHON'
import json
import pathlib
import sys
import textwrap

out = pathlib.Path(sys.argv[1])
methods = [method.split("|")[:2] for method in sys.argv[2:]]


def load(model, name, kind):
    return json.loads((out / model / f"{name}.{kind}.json").read_text())


def divergence(result):
    """In millinats per token, with its standard error; the float model's own is 0."""
    reference = result.get("reference")
    return f"{1e3 * reference['kl_nats_per_token']:.3f} ± {1e3 * reference['kl_stderr']:.3f}" if reference else "0"


titles = ["method", "bits/weight", "MB", "KL, millinats", "perplexity"]
for model in ("gpt2-demo", "llama-demo"):
    rows = []
    for name, label in methods:
        result = load(model, name, "perplexity")
        rows.append([label, f"{result['bits_per_weight']:.3f}", f"{result['model_bytes'] / 1e6:.2f}", divergence(result),
                     f"{result['perplexity']:.3f} ± {result['perplexity_stderr']:.3f}"])
    widths = [max(len(row[i]) for row in [titles, *rows]) for i in range(len(titles))]
    unquantized = load(model, methods[0][0], "perplexity")
    context = f"{result['protocol']}, context {result['context']}, stride {result['stride']}"
    print(f"\n{model}: KL divergence from the float model and perplexity on datasets/demo/eval.txt "
          f"({context}; float16 {unquantized['tokens_per_second']:,.0f} tokens/s on {unquantized['threads']} threads)\n")
    for row in [titles, ["-" * width for width in widths], *rows]:
        print("  " + row[0].ljust(widths[0]) + "".join("  " + cell.rjust(width) for cell, width in zip(row[1:], widths[1:])))
    print()
    for name, label in methods:
        generated = load(model, name, "generate")
        text = " ".join((generated["prompt"] + generated["text"]).split())
        print(textwrap.fill(f"[{label}] {text}", 110, initial_indent="  ", subsequent_indent="    "))
PYTHON
echo
echo "demo: the quantized models are in $out; with all commands (some minutes more), try for example"
echo "  cmake --build --preset release --target nibble_cli && build/release/cli/nibble inspect $out/gpt2-demo/palette-4-channel"
