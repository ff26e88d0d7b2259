"""mlx-lm on the CPU. Half-precision arithmetic is emulated there and slow: parameters are widened after loading, which is exact."""

import pathlib

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models.switch_layers import QuantizedSwitchLinear
from mlx_lm.utils import load_model, load_tokenizer

from . import Model

mx.set_default_device(mx.cpu)
VERSIONS = ["mlx", "mlx-lm"]


def widen(value):
    return value.astype(mx.float32) if value.dtype in (mx.float16, mx.bfloat16) else value


class Loaded(Model):
    def __init__(self, path, must_be_quantized=True):
        self.path = pathlib.Path(path)
        self.model, config = load_model(self.path)
        self.model.update(tree_map(widen, self.model.parameters()))
        kinds = (nn.QuantizedLinear, nn.QuantizedEmbedding, QuantizedSwitchLinear)
        self.packed = {n: m for n, m in self.model.named_modules() if isinstance(m, kinds)}
        self.notes = f"{len(self.packed)} quantized layers"
        if must_be_quantized and not self.packed:
            raise ValueError("loaded, but no layer was taken for a quantized one")

    def logits(self, ids):
        return np.array(self.model(mx.array([list(map(int, ids))]))[0].astype(mx.float32))

    def values(self):
        out = {}
        for name, value in tree_flatten(self.model.parameters()):
            module, _, leaf = name.rpartition(".")
            layer = self.packed.get(module)
            if layer is not None and leaf in ("scales", "biases"):
                continue
            if layer is not None and leaf == "weight":
                value = mx.dequantize(layer.weight, layer.scales, layer.get("biases"), group_size=layer.group_size, bits=layer.bits, mode=layer.mode)
            out[name] = np.array(value.astype(mx.float32))
        return out

    def weights(self, reference):
        """The reference directory goes through mlx-lm's renaming as well: names and shapes are then the same."""
        return self.values(), Loaded(reference, must_be_quantized=False).values()

    def ids_of(self, text, special):
        return [int(i) for i in load_tokenizer(self.path).encode(text, add_special_tokens=special)]


def open_model(path):
    return Loaded(path)
