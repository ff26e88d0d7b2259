#!/usr/bin/env bash
# Every method on the shared models at 4, 3 and 2 bits: perplexity, bits per weight and seconds, beside the figures and
# targets of ../shared/golden/baselines.md. What it found: docs/results/ablation.md.
#
#   scripts/ablate_shared_models.sh [NIBBLE [OUT]]       (build/release/cli/nibble, build/ablation)
#
# Calibrates each model once and works through the cells of `cells_of` below. A cell is a directory in OUT; those that
# are there are not made again, so a run that was stopped goes on where it was. Ends with OUT/table.md, also on standard
# output. With MODELS=DIRECTORY it measures models of the same names in another place (rescale_channels.py makes some).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

nibble=${1:-build/release/cli/nibble}
out=${2:-build/ablation}
shared=../shared
models=${MODELS:-$shared/models}
windows=$shared/golden/windows
baselines=()
mkdir -p "$out"

# cell BITS METHOD SETTING...: quantizes with the settings and measures.
cell() {
  local bits=$1 method=$2 setting arguments=()
  local directory="$out/$model/$bits ${method//\//|}"  # a name without slashes
  shift 2
  [[ -e "$directory" ]] && return
  for setting in "$@"; do
    case $setting in
      preset=*) arguments+=(--preset "${setting#preset=}") ;;
      tuning.*) arguments+=(--set "$setting" --tokens "$windows/calibration-64x512.u16") ;;
      *) arguments+=(--set "$setting") ;;
    esac
  done
  echo "$model, $bits bits: $method" >&2
  mkdir -p "$out/cell"
  "$nibble" quantize "$models/$model" -o "$out/quantized" --overwrite --calib "$out/$model.h5" "${arguments[@]}" \
    --json --quiet >"$out/cell/quantize.json"
  measure "$out/quantized" >"$out/cell/perplexity.json"
  mv "$out/cell" "$directory"
}

measure() {
  "$nibble" perplexity "$1" --tokens "$windows/test-78x512.u16" --protocol blocks --context 512 --json --quiet
}

# Names of baselines.md where it has the method. `bits` is the width; the other variables are settings with short names.
cells_of() {
  local fisher=weighting=fisher std=scaling=std plain=weighting_scale=plain shift=shifting=true
  local whole="whole-tensor palette" row="per-row palette" rows=granularity=channel bits
  local rounds=codebook_iterations feedback=solver=gptq descent=solver=coordinate-descent guided=hessian=guided-centred
  local tuned=tuning.epochs=4 size=budget.bits_per_weight widths=budget.bits
  # All-in bits of mixed widths, at most 0.05 above the baseline's: after the point for one palette per tensor, and for
  # palettes per row at 4 and 3 bits.
  local beyond=081 rows4=4.55 rows3=3.30
  [[ $model == llama-novels ]] && beyond=12 rows4=4.612 rows3=3.33
  for bits in 4 3 2; do
    local b=bits=$bits
    cell $bits "$whole: none (naive)" $b
    cell $bits "$whole: weighting" $b $fisher
    cell $bits "$whole: scaling" $b $std $plain
    cell $bits "$whole: shifting" $b $shift
    cell $bits "$whole: weighting + scaling" $b $fisher $std $plain
    cell $bits "$whole: weighting + shifting" $b $fisher $shift
    cell $bits "$whole: scaling + shifting" $b $std $plain $shift
    cell $bits "$whole: weighting + scaling + shifting" $b $fisher $std $plain $shift
    cell $bits "$whole: weighting + scaling + shifting, sign flip (the published method)" $b $fisher $std $plain \
      $shift sign=flip
    cell $bits "$whole: weighting + scaling + shifting, F·s²" $b $fisher $std $shift
    cell $bits "$row" $b $rows
    cell $bits "$row, weighting (SqueezeLLM dense, exact k-means)" $b $rows $fisher
    cell $bits "GPTQ, uniform min-max grid per row, act-order, damping 0.01" $b format=uniform zero_point=true $feedback
    cell $bits "GPTQ with a whole-tensor palette (F·s² k-means), std scales, centred Hessian, bias correction" $b \
      $fisher $std $shift $feedback hessian=centred

    cell $bits "$whole: descent, centred, 4 codebook rounds" $b $fisher $std $shift $descent hessian=centred \
      $rounds=4
    cell $bits "$whole: best" preset=best $b
    cell $bits "$whole: best, tuned" preset=tuned $b $tuned
    cell $bits "$row: feedback, guided-centred" $b $rows $fisher $shift $feedback $guided
    cell $bits "$row: best" $b $rows $fisher $shift $descent $guided $rounds=2
    cell $bits "$row: best, tuned" $b $rows $fisher $shift $descent $guided $rounds=2 $tuned
  done
  for bits in 4 3; do
    cell $bits "$whole: mixed" preset=mixed $size=$bits.$beyond
    cell $bits "$whole: mixed, tuned" preset=mixed $size=$bits.$beyond $tuned
  done
  local mixed_rows=($rows $fisher $shift $descent $guided $rounds=2 budget.granularity=channel)
  cell 4 "$row: mixed" "${mixed_rows[@]}" bits=4 $size=$rows4 $widths=3,4,6
  cell 4 "$row: mixed, tuned" "${mixed_rows[@]}" bits=4 $size=$rows4 $widths=3,4,6 $tuned
  cell 3 "$row: mixed" "${mixed_rows[@]}" bits=3 $size=$rows3 $widths=2,3,4
  cell 3 "$row: mixed, tuned" "${mixed_rows[@]}" bits=3 $size=$rows3 $widths=2,3,4 $tuned
  cell 4.5 "block int4, 32, extreme/−8 (Q4_0)" format=int4-block
  cell 5 "block int4, 32, min-max with zero point (Q4_1)" format=int4-block int4_scale=minmax zero_point=true
  cell 4.5 "block int4, 32: feedback" format=int4-block $feedback
  cell 4.5 "block int4, 32: best" format=int4-block search=hessian $shift $descent $guided
  cell 4.5 "block int4, 32: best, tuned" format=int4-block search=hessian $shift $descent $guided $tuned
}

for model in gpt2-novels llama-novels; do
  mkdir -p "$out/$model"
  if [[ ! -e $out/$model.h5 ]]; then
    echo "$model: calibrating" >&2
    "$nibble" calibrate "$models/$model" --tokens "$windows/calibration-64x512.u16" --quiet \
      --collect activations,fisher,hessian,guided-hessian -o "$out/$model.h5" >"$out/$model.calibration.txt"
  fi
  [[ -e $out/$model.float.json ]] || measure "$models/$model" >"$out/$model.float.json"
  cells_of
done
[[ -n ${MODELS:-} ]] || baselines=("$shared/golden/baselines.md")  # are about the models as they are
python3 scripts/ablation_table.py "$out" "${baselines[@]}" | tee "$out/table.md"
