"""A float checkpoint's tensors as a GGUF file of the same model must hold them, and what a file holds.

Names are those of the gguf package's own table. What llama.cpp expects beyond that, by architecture: query and key rows in the
order of interleaved rotary pairs (llama, arcee, granite), matrices (out, in) (gpt2), gains of norms with the 1 added (gemma), an expert's
matrices stacked, gpt_oss's gate and up apart."""

import json
import pathlib
import re

import gguf
import numpy as np
from safetensors.numpy import load_file

ARCHITECTURES = {"hunyuan_v1_dense": "hunyuan-dense", "internlm3": "llama", "iquestcoder": "llama", "mistral": "llama", "mixtral": "llama", "gpt_oss": "gpt-oss", "gemma3_text": "gemma3", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe",
                 "ernie4_5_moe": "ernie4_5-moe", "glm": "chatglm", "glm4_moe": "glm4moe", "granitemoehybrid": "granite", "minimax_m2": "minimax-m2", "ministral3": "mistral3"}
INTERLEAVED = {"llama", "arcee", "granite", "mistral3"}
COMPUTED = re.compile(r"^rope_(freqs|factors_long|factors_short)\.weight$")  # tables that a checkpoint has as configuration


def file_tensors(path):
    """{name: float32 array}, decoded by the gguf package"""
    out = {}
    for tensor in gguf.GGUFReader(path).tensors:
        if not COMPUTED.match(tensor.name):
            shape = [int(n) for n in reversed(tensor.shape)]
            out[tensor.name] = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape).astype(np.float32)
    return out


def interleaved(value, heads):
    """Rows of a head from (first halves, second halves) to pairs."""
    return value.reshape(heads, 2, value.shape[0] // heads // 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)


def stacked(tensors):
    """Experts that are tensors of their own become one tensor, its first axis the expert, under the name without the number."""
    out, experts = {}, {}
    for name, value in tensors.items():
        if found := re.fullmatch(r"(.*\.experts)\.(\d+)(\..*)", name):
            experts.setdefault(found[1] + found[3], {})[int(found[2])] = value
        else:
            out[name] = value
    return out | {name: np.stack([members[i] for i in range(len(members))]) for name, members in experts.items()}


def gate_and_up_apart(tensors):
    """gpt_oss: (experts, in, 2 x out), gate and up in alternate columns; biases (experts, 2 x out)"""
    out = {}
    for name, value in tensors.items():
        if found := re.fullmatch(r"(.*\.experts)\.(gate_up|down)_proj(_bias)?", name):
            bias = found[3] is not None
            parts = {"gate": value[..., ::2], "up": value[..., 1::2]} if found[2] == "gate_up" else {"down": value}
            for part, v in parts.items():
                out[f"{found[1]}.{part}_proj" + (".bias" if bias else ".weight")] = v if bias else v.swapaxes(1, 2)
        else:
            out[name] = value
    return out


def halves_apart(tensors):
    """granitemoehybrid: (2 x out, in), gate, then up; under Llama's names, for the package has none for parts of that"""
    out = {}
    for name, value in tensors.items():
        mlp = name.removesuffix("shared_mlp.input_linear.weight")
        if mlp != name:
            for part, v in zip(("gate", "up"), np.split(value, 2)):
                out[f"{mlp}mlp.{part}_proj.weight"] = v
        else:
            out[name.replace("shared_mlp.output_linear", "mlp.down_proj")] = value
    return out


def reference_tensors(directory):
    config = json.loads((pathlib.Path(directory) / "config.json").read_text())
    tensors = load_file(pathlib.Path(directory) / "model.safetensors")
    kind = config["model_type"]
    architecture = ARCHITECTURES.get(kind, kind)
    key = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == architecture)
    names = gguf.get_tensor_name_map(key, config.get("num_hidden_layers") or config["n_layer"])
    if kind == "gpt_oss":
        tensors = gate_and_up_apart(tensors)
    if kind == "granitemoehybrid":
        tensors = halves_apart(tensors)
    out = {}
    for name, value in stacked(tensors).items():
        if name.endswith("e_score_correction_bias"):  # as the converter does
            name, value = name.replace("e_score_correction_bias", "e_score_correction.bias"), value.reshape(-1)
        base, suffix = name, ""
        for end in (".weight", ".bias"):
            if name.endswith(end):
                base, suffix = name.removesuffix(end), end
        suffix = suffix or ".weight"  # sinks have none in a checkpoint
        mapped = names.get_name(base) or names.get_name("transformer." + base)
        if mapped is None:
            raise KeyError(f"the gguf package has no name for {name} of {architecture}")
        part = mapped.rsplit(".", 1)[-1]
        if architecture in INTERLEAVED and part in ("attn_q", "attn_k"):
            value = interleaved(value, config["num_attention_heads" if part == "attn_q" else "num_key_value_heads"])
        if architecture == "gpt2" and part in ("attn_qkv", "attn_output", "ffn_up", "ffn_down") and value.ndim == 2:
            value = value.T
        if architecture.startswith("gemma") and part.endswith("norm"):
            value = value + np.float32(1)
        out[mapped + suffix] = value
    return out
