"""mlx-lm on the CPU. Half-precision arithmetic is emulated there and slow: parameters are widened after loading, which is exact."""

import json
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
    def __init__(self, path, float_config=None):
        """`float_config`: a configuration instead of the directory's own, of a network without quantized layers."""
        self.path = pathlib.Path(path)
        self.model, _ = load_model(self.path, model_config=float_config or {})
        self.model.update(tree_map(widen, self.model.parameters()))
        kinds = (nn.QuantizedLinear, nn.QuantizedEmbedding, QuantizedSwitchLinear)
        self.packed = {n: m for n, m in self.model.named_modules() if isinstance(m, kinds)}
        self.notes = f"{len(self.packed)} quantized layers"
        if float_config is None and not self.packed:
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
        """The reference directory goes through mlx-lm's renaming as well: names and shapes are then the same. Its own
        configuration is for transformers, and lacks what mlx-lm wants to be told."""
        config = json.loads((self.path / "config.json").read_text())
        config = {key: value for key, value in config.items() if not key.startswith("quantization")}
        return self.values(), Loaded(reference, config).values()

    def ids_of(self, text, special):
        return [int(i) for i in load_tokenizer(self.path).encode(text, add_special_tokens=special)]


def open_model(path):
    return Loaded(path)
