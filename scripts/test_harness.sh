#!/usr/bin/env bash
# lm-evaluation-harness with its own model `hf` and with `nibble` on the same checkpoints, item by item
# (scripts/compare_harness.py): the demo's models, float and packed, and the golden families where ../shared has them. Installs
# PyTorch and transformers into build/python/harness-env (3 GB, once); NIBBLE_HARNESS_ENV names an environment that has them.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/build/python
wheel=$(scripts/build_wheel.sh)
environment=${NIBBLE_HARNESS_ENV:-$work/harness-env}
if [[ -z ${NIBBLE_HARNESS_ENV:-} ]]; then
  [[ -x $environment/bin/python ]] || "${PYTHON:-python3}" -m venv "$environment"
  "$environment/bin/pip" install -q --disable-pip-version-check -r python/requirements-harness.txt
fi
"$environment/bin/pip" install -q --disable-pip-version-check --no-deps --force-reinstall "$wheel"
cmake --preset release >/dev/null
cmake --build --preset release --target nibble_cli
nibble=build/release/cli/nibble
out=$work/harness
rm -rf "$out"
mkdir -p "$out"
models=() packed=()
for model in datasets/demo/*-demo; do
  name=$(basename "$model")
  models+=("$model")
  for preset in int4-block palette; do
    "$nibble" quantize "$model" --preset "$preset" -o "$out/$name-$preset" -q >/dev/null
    "$nibble" export "$out/$name-$preset" --format dequantized --dtype float32 -o "$out/$name-$preset-float" -q >/dev/null
    packed+=("$out/$name-$preset=$out/$name-$preset-float")
  done
done
families=../shared/golden/families
for family in gpt2 bloom gpt_neox phi gemma2 cohere qwen3 mixtral gpt_oss; do
  [[ -d $families/$family ]] && models+=("$families/$family")
done
"$environment/bin/python" scripts/compare_harness.py "${models[@]}" --packed "${packed[@]}" --text datasets/demo/*.txt \
  --items "${ITEMS:-60}" --work "$out/work" --json "$out/results.json"
