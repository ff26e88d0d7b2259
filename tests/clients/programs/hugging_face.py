"""transformers: plain checkpoints, compressed-tensors, and GPTQ and AWQ with the kernels of gptqmodel. Arithmetic is float32."""

import json
import pathlib

import numpy as np
import torch
import transformers
from compare import window_loss
from safetensors.numpy import load_file

from . import Model

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)
VERSIONS = ["transformers", "torch", "compressed-tensors", "gptqmodel", "optimum"]


def tokenizer_of(path):
    return transformers.AutoTokenizer.from_pretrained(path)


def ids_of(tokenizer, text, special):
    return [int(i) for i in tokenizer(text, add_special_tokens=special)["input_ids"]]


class Loaded(Model):
    """A torch module whose forward pass gives logits, with gptqmodel's layers in it or not."""

    def __init__(self, path, model):
        self.path, self.model = path, model.eval()
        self.packed = {n: m for n, m in model.named_modules() if hasattr(m, "qzeros")}
        # The kernels compute in the type of the scales, float16 as stored; widened, they multiply codes and inputs in float32.
        for layer in self.packed.values():
            layer.scales = layer.scales.float()
        kinds = sorted({type(m).__name__ for m in self.packed.values()})
        self.notes = f"{len(self.packed)} packed layers ({', '.join(kinds)})" if self.packed else ""

    def logits(self, ids):
        with torch.no_grad():
            return self.model(torch.tensor([list(map(int, ids))])).logits[0].float().numpy()

    def greedy(self, ids, count):
        prompt = torch.tensor([list(map(int, ids))])
        out = self.model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count, min_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0)
        return out[0, len(ids) :].tolist()

    def ids_of(self, text, special):
        return ids_of(tokenizer_of(self.path), text, special)

    def packed_weights(self, reference):
        """Whatever a layer does with its codes: the image of the unit matrix, without bias, is its weight (in, out)."""
        want = load_file(pathlib.Path(reference) / "model.safetensors")
        have = {}
        for name, layer in self.packed.items():
            with torch.no_grad():
                image = layer(torch.eye(layer.in_features)) - (layer.bias if layer.bias is not None else 0)
            name = name.removeprefix("transformer.") + ".weight"
            stored_as_image = self.model.config.model_type == "gpt2"  # its checkpoints hold (in, out)
            have[name] = image.float().numpy() if stored_as_image else image.float().numpy().T
        for name, value in self.model.state_dict().items():
            name = name.removeprefix("transformer.")
            if name in want and name not in have:
                have[name] = value.float().numpy()
        return have, want


class Plain(Loaded):
    """What transformers itself holds as plain weights once loaded; compared with what it makes of the reference directory."""

    def weights(self, reference):
        if self.packed:
            return self.packed_weights(reference)
        ends = ("_scale", "_zero_point", "_shape", "_packed", "_g_idx")
        values = lambda model: {n: v.float().numpy() for n, v in model.state_dict().items() if v.is_floating_point() and not n.endswith(ends)}
        want = transformers.AutoModelForCausalLM.from_pretrained(reference, dtype=torch.float32, attn_implementation="eager")
        return values(self.model), values(want)


def open_model(path):
    config = json.loads((pathlib.Path(path) / "config.json").read_text())
    method = config.get("quantization_config", {}).get("quant_method", "")
    more = {"device_map": "cpu"} if method in ("gptq", "awq") else {}
    if method == "compressed-tensors" and not symmetric(config["quantization_config"]):
        # transformers 5.23 makes room for unpacked zero points only, and refuses the packed ones; it can decode while loading
        more["quantization_config"] = transformers.CompressedTensorsConfig(dequantize=True)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **more)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if info.get(problem):
            raise ValueError(f"{problem}: {sorted(map(str, info[problem]))[:4]}")
    loaded = Plain(path, model)
    if method == "compressed-tensors":
        loaded.logits([0])  # the first call decompresses
        count = sum(getattr(m, "quantization_scheme", None) is not None for m in model.modules())
        loaded.notes = f"{count} layers by compressed-tensors"
        if not count and not more:
            raise ValueError("loaded, but no layer was taken for a quantized one")
    if method in ("gptq", "awq") and not loaded.packed:
        raise ValueError("loaded, but no layer was taken for a quantized one")
    return loaded


def symmetric(quantization):
    return all(group["weights"].get("symmetric", True) for group in quantization["config_groups"].values())


def judge(path, text, windows, window, prompt, count):
    """The reference: what others are compared with, of a float32 directory. `windows` of `window` tokens are the text's first. The
    first `prompt` tokens of one are continued by `count`: the one whose steps are the most decided, so that programs which round
    differently can be compared to the end. Margins are between the two best logits of each step."""
    model, tokenizer = open_model(path), tokenizer_of(path)
    ids = ids_of(tokenizer, text, False)
    cut = [ids[i * window : (i + 1) * window] for i in range(windows)]
    logits = [model.logits(w) for w in cut]
    steps, margins = torch.tensor([w[:prompt] for w in cut]), []
    for _ in range(count):
        with torch.no_grad():
            best = model.model(steps).logits[:, -1].float().topk(2)
        margins.append((best.values[:, 0] - best.values[:, 1]).numpy())
        steps = torch.cat([steps, best.indices[:, :1]], 1)
    decided = int(np.min(margins, 0).argmax())
    chosen = steps[decided].tolist()
    return {"windows": cut, "logits": logits[0], "losses": [window_loss(x, w) for x, w in zip(logits, cut)], "prompt": chosen[:prompt],
            "greedy": chosen[prompt:], "margins": [m[decided] for m in margins], "plain_ids": ids, "special_ids": ids_of(tokenizer, text, True)}
