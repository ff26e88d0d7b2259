"""gptqmodel by itself: GPTQ and AWQ checkpoints, also of families that transformers does not take as such (GPT-2)."""

import torch
from gptqmodel import GPTQModel

from .hugging_face import Loaded

VERSIONS = ["gptqmodel", "transformers", "torch"]


class Packed(Loaded):
    def weights(self, reference):
        return self.packed_weights(reference)


def open_model(path):
    # Asked for float32 it takes a kernel that rounds to bfloat16. So: its float16 kernel, and the float parts widened afterwards.
    model = GPTQModel.load(str(path), device="cpu", dtype=torch.float16).model
    loaded = Packed(path, torch.nn.Module.float(model))
    if not loaded.packed:
        raise ValueError("loaded, but no layer was taken for a quantized one")
    return loaded
