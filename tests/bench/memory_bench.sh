#!/usr/bin/env bash
# Peak anonymous memory of `nibble quantize`, `perplexity` and `calibrate` on a Llama-shaped checkpoint of random weights, with
# few and with many layers: it should hardly grow with their number, since weights stay mapped and tensors are worked on
# a few at a time; and of `quantize` under a small --memory by methods that look at all of a weight. Figures are the
# program's own (peak_anonymous_bytes). Usage: tests/bench/memory_bench.sh [NIBBLE]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
nibble=${1:-build/release/cli/nibble}
work=$(mktemp -d "${TMPDIR:-/tmp}/nibble-memory-XXXXXX")
trap 'rm -rf "$work"' EXIT

make_checkpoint() {  # LAYERS DIRECTORY: width 1024, MLP 4096, 16 heads, 8 of them for keys; float16
  python3 - "$1" "$2" <<'PYTHON'
import json
import pathlib
import random
import struct
import sys

layers, out = int(sys.argv[1]), pathlib.Path(sys.argv[2])
hidden, inner, kv, vocabulary = 1024, 4096, 512, 2048
shapes = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
for i in range(layers):
    layer = f"model.layers.{i}."
    shapes |= {layer + "input_layernorm.weight": (hidden,), layer + "post_attention_layernorm.weight": (hidden,)}
    for name, shape in {"q_proj": (hidden, hidden), "k_proj": (kv, hidden), "v_proj": (kv, hidden),
                        "o_proj": (hidden, hidden)}.items():
        shapes[f"{layer}self_attn.{name}.weight"] = shape
    for name, shape in {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}.items():
        shapes[f"{layer}mlp.{name}.weight"] = shape
header, end = {}, 0
for name, shape in shapes.items():
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [end, end + 2 * count]}
    end += 2 * count
out.mkdir()
(out / "config.json").write_text(json.dumps({
    "model_type": "llama", "vocab_size": vocabulary, "hidden_size": hidden, "intermediate_size": inner,
    "num_hidden_layers": layers, "num_attention_heads": 16, "num_key_value_heads": 8, "hidden_act": "silu",
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True}))
small = bytes((b & 0x80) | 0x1C + (b & 0x0F) for b in range(256))  # high bytes of float16 values of a few hundredths
rng = random.Random(0)
with open(out / "model.safetensors", "wb") as file:
    text = json.dumps(header).encode()
    file.write(struct.pack("<Q", len(text)) + text)
    for entry in header.values():
        count = (entry["data_offsets"][1] - entry["data_offsets"][0]) // 2
        values = bytearray(2 * count)
        values[0::2], values[1::2] = rng.randbytes(count), rng.randbytes(count).translate(small)
        file.write(values)
(out / "tokens.u16").write_bytes(struct.pack("<2048H", *(rng.randrange(vocabulary) for _ in range(2048))))
PYTHON
}

for layers in 2 8; do
  model=$work/layers-$layers
  make_checkpoint "$layers" "$model"
  "$nibble" quantize "$model" --preset palette -o "$model-q" --json --quiet >"$work/quantize.json"
  "$nibble" perplexity "$model" --tokens "$model/tokens.u16" --protocol blocks --json --quiet >"$work/float.json"
  "$nibble" perplexity "$model-q" --tokens "$model/tokens.u16" --protocol blocks --json --quiet >"$work/quantized.json"
  python3 - "$layers" "$work" <<'PYTHON'
import json
import pathlib
import sys

layers, work = sys.argv[1], pathlib.Path(sys.argv[2])
quantize, plain, packed = (json.loads((work / f"{name}.json").read_text()) for name in ("quantize", "float", "quantized"))
print(f"{layers} layers, {plain['model_bytes'] / 1e6:.0f} MB of float16, largest linear layer 8 MB, "
      f"{quantize['threads']} threads; peak anonymous memory: quantize {quantize['peak_anonymous_bytes'] / 1e6:.0f} MB, "
      f"perplexity {plain['peak_anonymous_bytes'] / 1e6:.0f} MB, of the quantized model "
      f"{packed['peak_anonymous_bytes'] / 1e6:.0f} MB")
PYTHON
  rm -rf "$model" "$model-q"
done

# Calibration holds one block's sums at a time and spills residuals: a 1.3 GB checkpoint under 512 MB.
model=$work/calibrate
make_checkpoint 40 "$model"
"$nibble" calibrate "$model" --tokens "$model/tokens.u16" --length 512 --memory 512M -o "$work/calib.h5" --json --quiet \
  >"$work/calibrate.json"
python3 - "$work/calibrate.json" "$model/model.safetensors" <<'PYTHON'
import json
import os
import sys

result = json.load(open(sys.argv[1]))
print(f"calibrate, 40 layers, {os.path.getsize(sys.argv[2]) / 1e6:.0f} MB of float16, --memory 512M: peak anonymous memory "
      f"{result['peak_anonymous_bytes'] / 1e6:.0f} MB")
PYTHON
rm -rf "$model"

# What methods need of a weight beyond --memory is mapped: the same bytes in more time. The largest weights have 4 M values.
model=$work/mapped
make_checkpoint 1 "$model"
"$nibble" calibrate "$model" --tokens "$model/tokens.u16" --length 512 -o "$work/mapped.h5" --quiet \
  --collect activations,fisher,hessian,guided-hessian,output-hessian
for preset in whole-tensor squeezellm gptq nvfp4 windowed scalar best; do
  for memory in 4G 64M; do
    "$nibble" quantize "$model" --preset "$preset" --calib "$work/mapped.h5" --memory "$memory" -o "$work/$memory" \
      --overwrite --json --quiet >"$work/$memory.json"
  done
  cmp "$work/4G/model.safetensors" "$work/64M/model.safetensors"
  python3 - "$preset" "$work" <<'PYTHON'
import json
import pathlib
import sys

preset, work = sys.argv[1], pathlib.Path(sys.argv[2])
held, mapped = (json.loads((work / f"{memory}.json").read_text()) for memory in ("4G", "64M"))
print(f"quantize --preset {preset}: {held['peak_anonymous_bytes'] / 1e6:.0f} MB and {held['seconds']:.1f} s with --memory 4G, "
      f"{mapped['peak_anonymous_bytes'] / 1e6:.0f} MB and {mapped['seconds']:.1f} s with 64M")
PYTHON
done
