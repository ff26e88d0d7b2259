#!/usr/bin/env python3
"""Gives a model the outlier channels of large ones without changing what it computes.

    scripts/rescale_channels.py MODEL OUTPUT [SEED]

Wherever linear layers read a norm (q k v; gate and up, or fc), the gain of 1 channel in 100 is multiplied by 32 or 64
and the weights that read it are divided by the same: powers of two, so the function stays what it was (up to weights
that get too small for the full precision of float16). The activations then have a few channels far larger than all
others, which is what breaks quantizers on large models.

For checkpoints like the shared models: GPT-2 or Llama, float16, in one model.safetensors.
"""
import json
import pathlib
import random
import shutil
import struct
import sys


class Checkpoint:
    """A safetensors file in memory, changed in place."""

    def __init__(self, path):
        self.data = bytearray(path.read_bytes())
        self.start = 8 + int.from_bytes(self.data[:8], "little")
        self.header = json.loads(self.data[8 : self.start])
        self.header.pop("__metadata__", None)

    def scale(self, name, index, factor):
        """Multiplies the elements of a tensor that lie at `index` (a slice over the flat tensor)."""
        entry = self.header[name]
        if entry["dtype"] != "F16":
            sys.exit(f"{name}: expected F16, got {entry['dtype']}")
        begin, end = entry["data_offsets"]
        for i in range((end - begin) // 2)[index]:
            at = self.start + begin + 2 * i
            struct.pack_into("<e", self.data, at, struct.unpack_from("<e", self.data, at)[0] * factor)


def norms(names):
    """(vectors of a norm, weights that read it, whether those are stored (in, out))"""
    for name in sorted(names):
        block, norm = name.rsplit(".", 2)[:2] if name.count(".") > 1 else ("", "")
        if not name.endswith(".weight"):
            continue
        if norm == "ln_1":
            yield [name, f"{block}.ln_1.bias"], [f"{block}.attn.c_attn.weight"], True
        elif norm == "ln_2":
            yield [name, f"{block}.ln_2.bias"], [f"{block}.mlp.c_fc.weight"], True
        elif norm == "input_layernorm":
            yield [name], [f"{block}.self_attn.{part}_proj.weight" for part in "qkv"], False
        elif norm == "post_attention_layernorm":
            yield [name], [f"{block}.mlp.{part}_proj.weight" for part in ("gate", "up")], False


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    model, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) == 4 else 0)
    checkpoint = Checkpoint(model / "model.safetensors")
    for vectors, weights, transposed in norms(checkpoint.header):
        width = checkpoint.header[vectors[0]]["shape"][0]
        for channel in draw.sample(range(width), -(-width // 100)):
            factor = draw.choice([32.0, 64.0])
            for name in vectors:
                checkpoint.scale(name, slice(channel, channel + 1), factor)
            for name in weights:
                outputs = checkpoint.header[name]["shape"][1]
                row = slice(channel * outputs, (channel + 1) * outputs)
                checkpoint.scale(name, row if transposed else slice(channel, None, width), 1.0 / factor)
    output.mkdir(parents=True)
    for file in model.iterdir():
        if file.is_file() and file.name != "model.safetensors":
            shutil.copy(file, output)
    (output / "model.safetensors").write_bytes(checkpoint.data)


if __name__ == "__main__":
    main()
