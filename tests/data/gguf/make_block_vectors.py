#!/usr/bin/env python3
"""Makes NAME.bin for each block type: blocks, then the floats that the `gguf` package (0.19.0) decodes them to.

usage: make_block_vectors.py DIRECTORY [BLOCKS_OF_256]     needs: pip install gguf==0.19.0
"""
import pathlib
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Scales that go wrong first: zeros, subnormals, the largest, infinities, quiet and signalling NaN.
EXTREMES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x7D01, 0x0400, 0x3C00]
# Where the halves of a block are that hold scales and minimums.
SCALES = {"F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0],
          "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0],
          "TQ1_0": [52], "TQ2_0": [64], "MXFP4": [], "NVFP4": [], "BF16": [0],
          "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ1_M": []}


def main():
    directory = pathlib.Path(sys.argv[1])
    large = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    rng = np.random.default_rng(2026)
    for name, places in SCALES.items():
        kind = GGMLQuantizationType[name]
        weights, size = GGML_QUANT_SIZES[kind]
        count = large if weights == 256 else 6 * large if weights > 1 else 64 * large
        blocks = rng.integers(0, 256, (count + (len(EXTREMES) if places else 8), size), np.uint8)
        for place in places:  # ordinary scales are small
            blocks[:count, place : place + 2] = rng.normal(0, 0.02, count).astype(np.float16).view(np.uint8).reshape(-1, 2)
            blocks[count:, place : place + 2] = np.roll(np.array(EXTREMES, np.uint16), place).view(np.uint8).reshape(-1, 2)
        if name == "MXFP4":
            blocks[-8:, 0] = [0, 1, 2, 127, 128, 253, 254, 255]
        if name == "NVFP4":
            blocks[-8:, :4] = [[0, 1, 7, 8], [0x7E, 0x7F, 0x80, 0xFF]] * 4
        with np.errstate(all="ignore"):
            values = np.ascontiguousarray(dequantize(blocks, kind), np.float32)
        (directory / f"{name}.bin").write_bytes(blocks.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
