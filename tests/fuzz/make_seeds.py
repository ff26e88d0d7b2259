#!/usr/bin/env python3
"""Writes those files fuzzing starts from that are not written by hand: of tests/fuzz/corpus, config, diff, gguf, gguf_model,
sentencepiece, tokenizer_json and weights.

GGUF: one file with a row of every block type; one llama and one gpt2 with a tokenizer of each kind. Plain struct.pack by
the format's own description, no package: what is written does not depend on anybody's version.
Tokenizers: from tests/data/tokenizers, also with the files that may lie beside them. Configurations: the published ones that
the program knows. Weights: a llama of 8-bit floats with scales of every shape, a mixture in MXFP4, one of plain floats; `diff`
gives files of `quantized` a quantization.json.
"""
import json
import pathlib
import random
import re
import struct

U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
# number of the type: weights and bytes per block
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
          11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74),
          18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 28: (1, 8),
          29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36)}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    if kind == STRING:
        return text(value)
    return struct.pack({U32: "<I", F32: "<f", BOOL: "<B", I32: "<i"}[kind], value)


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + scalar(kind, value)


def array(key, kind, values):
    head = struct.pack("<IIQ", ARRAY, kind, len(values))
    return text(key) + head + b"".join(scalar(kind, value) for value in values)


def gguf(pairs, tensors):
    """tensors: (name, extents with the fastest first, type)."""
    rng = random.Random(1)
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs)
    data = b""
    for name, extents, kind in tensors:
        weights, size = BLOCKS[kind]
        count = 1
        for extent in extents:
            count *= extent
        out += text(name) + struct.pack("<I", len(extents)) + struct.pack(f"<{len(extents)}Q", *extents)
        out += struct.pack("<IQ", kind, len(data))
        data += rng.randbytes(count // weights * size)
        data += bytes(-len(data) % 32)
    return out + bytes(-len(out) % 32) + data


def model(name, settings, tokenizer, tensors):
    pairs = [pair("general.architecture", STRING, name)]
    pairs += [pair(f"{name}.{key}", F32 if isinstance(value, float) else U32, value) for key, value in settings.items()]
    return gguf(pairs + tokenizer, tensors)


CUT = b"\n----\n"  # fuzz.h: parts()
BYTES = {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "U8": 1}


def safetensors(tensors):
    """tensors: name: (dtype, shape). Values of 1.0 for floats, any bits that are no NaN for the rest."""
    header, data = {}, b""
    for name, (dtype, shape) in tensors.items():
        count = 1
        for extent in shape:
            count *= extent
        one = {"F32": b"\0\0\x80\x3f", "F16": b"\0\x3c", "BF16": b"\x80\x3f"}.get(dtype, b"\x38")
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + count * BYTES[dtype]]}
        data += one * count
    text_of = json.dumps(header).encode()
    text_of += b" " * (-len(text_of) % 8)
    return struct.pack("<Q", len(text_of)) + text_of + data


def weights():
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
             "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64, "vocab_size": 8, "rms_norm_eps": 1e-5,
             "rope_theta": 10000.0, "hidden_act": "silu"}
    llama = {"model_type": "llama", "tie_word_embeddings": True, **sizes}
    layer, attention, mlp = "model.layers.0.", "model.layers.0.self_attn.", "model.layers.0.mlp."
    outer = {"model.embed_tokens.weight": ("BF16", [8, 32]), "model.norm.weight": ("F32", [32]),
             layer + "input_layernorm.weight": ("F16", [32]), layer + "post_attention_layernorm.weight": ("F32", [32])}
    linear = {attention + "q_proj": 32, attention + "k_proj": 16, attention + "v_proj": 16, attention + "o_proj": 32,
              mlp + "gate_proj": 32, mlp + "up_proj": 32, mlp + "down_proj": 32}
    floats = {f"{name}.weight": (("F32", "F16", "BF16")[i % 3], [rows, 32]) for i, (name, rows) in enumerate(linear.items())}
    scales = [("_scale_inv", "F32", []), ("_scale", "BF16", [1]), ("_scale", "F32", [16]), ("_scale_inv", "F16", [32, 1]),
              ("_scale_inv", "F32", [2, 2]), ("_scale", "F8_E8M0", [2, 2]), ("_scale", "F32", [1, 1])]
    eights = {}
    for i, ((name, rows), (suffix, dtype, shape)) in enumerate(zip(linear.items(), scales)):
        eights[f"{name}.weight"] = (("F8_E4M3", "F8_E5M2")[i % 2], [rows, 32])
        eights[f"{name}.weight{suffix}"] = (dtype, shape)
    eights[mlp + "up_proj.input_scale"] = ("F32", [])
    eights["spare.weight"] = ("F32", [4])
    group = {"targets": ["Linear"], "weights": {"type": "float", "num_bits": 8, "block_structure": [16, 16]}}
    compressed = {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": group}}
    experts = {f"{name}.{part}": ("BF16", shape) for name, rows in linear.items() if name.startswith(attention)
               for part, shape in (("weight", [rows, 32]), ("bias", [rows]))}
    experts.update({
        "lm_head.weight": ("BF16", [8, 32]), attention + "sinks": ("BF16", [2]),
        mlp + "router.weight": ("BF16", [2, 32]), mlp + "router.bias": ("BF16", [2]),
        mlp + "experts.gate_up_proj_blocks": ("U8", [2, 64, 1, 16]), mlp + "experts.gate_up_proj_scales": ("U8", [2, 64, 1]),
        mlp + "experts.gate_up_proj_bias": ("BF16", [2, 64]), mlp + "experts.down_proj_blocks": ("U8", [2, 32, 1, 16]),
        mlp + "experts.down_proj_scales": ("U8", [2, 32, 1]), mlp + "experts.down_proj_bias": ("BF16", [2, 32])})
    mixture = {"model_type": "gpt_oss", "attention_bias": True, "num_local_experts": 2, "num_experts_per_tok": 1,
               "swiglu_limit": 7.0, "sliding_window": 8, "tie_word_embeddings": False, **sizes}

    def joined(config, generation, tensors):
        return CUT.join([json.dumps(config).encode(), json.dumps(generation).encode(), safetensors({**outer, **tensors})])

    fp8 = {"quant_method": "fp8", "weight_block_size": [16, 16]}
    return {"floats": joined(llama, {"eos_token_id": [1, 2, 99]}, floats),
            "fp8": joined({**llama, "quantization_config": fp8}, {"eos_token_id": 2, "temperature": 0.7}, eights),
            "compressed": joined({**llama, "quantization_config": compressed}, {}, eights),
            "mxfp4": joined({**mixture, "quantization_config": {"quant_method": "mxfp4"}}, {"eos_token_id": [3]}, experts)}


def with_quantization(seed):
    """A file of `quantized` with a quantization.json that says something of each of its tensors."""
    config, data = seed.split(CUT, 1)
    described = json.loads(config)["quantization_config"]["tensors"]
    figures = [{"name": name, "format": "any", "weights": 1024, "stored_bits": 4608, "bits_per_weight": 4.5,
                "relative_weight_error": 0.08, "fisher_error": 0.1, "output_error": 0.2, "seconds": 1e-4}
               for name in described]
    whole = {"bits_per_weight": 4.5, "model_bits_per_weight": 5.0, "tensors": figures}
    return CUT.join([config, json.dumps(whole).encode(), data])


def main():
    corpus = pathlib.Path(__file__).parent / "corpus"
    every_type = gguf([pair("general.name", STRING, "every type")],
                      [(f"t{kind}", [weights * (1 if weights > 1 else 8)], kind) for kind, (weights, _) in BLOCKS.items()])
    sizes = {"block_count": 1, "context_length": 64, "embedding_length": 32, "feed_forward_length": 64,
             "attention.head_count": 2}
    letters = ["<unk>", "<s>", "</s>", "<0x0A>", "a", "b", "\u2581", "ab", "\u2581ab", "<0xC3>", "<0xA9>"]
    pieces = [pair("tokenizer.ggml.model", STRING, "llama"), array("tokenizer.ggml.tokens", STRING, letters),
              array("tokenizer.ggml.scores", F32, [0, 0, 0, 0, -10, -11, -12, -1, -2, 0, 0]),
              array("tokenizer.ggml.token_type", I32, [2, 3, 3, 6, 1, 1, 1, 1, 1, 6, 6]),
              pair("tokenizer.ggml.bos_token_id", U32, 1), pair("tokenizer.ggml.eos_token_id", U32, 2),
              pair("tokenizer.ggml.unknown_token_id", U32, 0), pair("tokenizer.ggml.add_bos_token", BOOL, 1)]
    words = ["<s>", "</s>", "a", "b", "c", "\u0120", "1", "ab", "\u0120ab", "<tool>", "11"]
    bpe = [pair("tokenizer.ggml.model", STRING, "gpt2"), pair("tokenizer.ggml.pre", STRING, "gpt-2"),
           array("tokenizer.ggml.tokens", STRING, words),
           array("tokenizer.ggml.token_type", I32, [3, 3, 1, 1, 1, 1, 1, 1, 1, 4, 1]),
           array("tokenizer.ggml.merges", STRING, ["a b", "\u0120 ab", "1 1"]),
           pair("tokenizer.ggml.bos_token_id", U32, 0), pair("tokenizer.ggml.eos_token_id", U32, 1)]
    vectors = [("blk.0.attn_norm.weight", [32], 0), ("blk.0.ffn_norm.weight", [32], 0), ("output_norm.weight", [32], 0)]
    llama = model("llama", {**sizes, "attention.head_count_kv": 1, "attention.layer_norm_rms_epsilon": 1e-5,
                            "rope.dimension_count": 16, "rope.freq_base": 10000.0}, pieces,
                  [("token_embd.weight", [32, 11], 8), ("blk.0.attn_q.weight", [32, 32], 2),
                   ("blk.0.attn_k.weight", [32, 16], 3), ("blk.0.attn_v.weight", [32, 16], 6),
                   ("blk.0.attn_output.weight", [32, 32], 7), ("blk.0.ffn_gate.weight", [32, 64], 20),
                   ("blk.0.ffn_up.weight", [32, 64], 39), ("blk.0.ffn_down.weight", [64, 32], 40)] + vectors)
    biases = [(f"blk.0.{name}.bias", [width], 0) for name, width in
              (("attn_norm", 32), ("attn_qkv", 96), ("attn_output", 32), ("ffn_norm", 32), ("ffn_up", 64), ("ffn_down", 32))]
    gpt2 = model("gpt2", {**sizes, "attention.layer_norm_epsilon": 1e-5}, bpe,
                 [("token_embd.weight", [32, 11], 1), ("position_embd.weight", [32, 64], 30),
                  ("blk.0.attn_qkv.weight", [32, 96], 8), ("blk.0.attn_output.weight", [32, 32], 8),
                  ("blk.0.ffn_up.weight", [32, 64], 8), ("blk.0.ffn_down.weight", [64, 32], 8),
                  ("output_norm.bias", [32], 0)] + vectors + biases)
    tokenizers = pathlib.Path(__file__).parents[1] / "data" / "tokenizers"
    pieces = {kind: (tokenizers / f"spm_{kind}.model").read_bytes() for kind in ("bpe", "unigram")}
    cases = json.loads((tokenizers / "pipelines.json").read_text())
    json_files = {case["name"]: json.dumps({**case["file"], "model": cases["models"][case["model"]]}).encode()
                  for case in cases["pipelines"] if case["name"] in ("cohere", "gemma", "qwen2", "unigram")}
    named = {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}, "unk_token": "<unk>"}
    decoder = {"added_tokens_decoder": {"1": {"content": "<s>", "special": True}, "2": {"content": "</s>", "special": True}}}
    config = json.dumps({**named, "add_bos_token": True, "add_eos_token": False, "tokenizer_class": "LlamaTokenizer",
                         "additional_special_tokens": ["<pad>", {"content": "<tool>"}], **decoder}).encode()
    legacy = json.dumps({"legacy": False, "add_prefix_space": False, "add_bos_token": False}).encode()
    pieces["bpe_beside"] = CUT.join([pieces["bpe"], config, json.dumps(named).encode()])
    pieces["bpe_added"] = CUT.join([pieces["bpe"], legacy, b"{}", json.dumps({"<pad>": 420, "<tool>": 421}).encode()])
    pieces["unigram_added"] = CUT.join([pieces["unigram"], b"{}", json.dumps({"pad_token": "<pad>", **named}).encode(),
                                        json.dumps({"<pad>": 220}).encode()])
    llama_demo = (corpus / "tokenizer_json" / "llama_demo").read_bytes()
    beyond = config.replace(b'"1": {', b'"300": {').replace(b'"2": {', b'"301": {')
    json_files["llama_demo_config"] = CUT.join([llama_demo, beyond])
    demo = (corpus / "tokenizer_files" / "gpt2_demo").read_bytes()
    beside = CUT.join([demo, json.dumps({"pad_token": "<pad>", "additional_special_tokens": ["<tool>"]}).encode(),
                       json.dumps({"<pad>": 291, "<tool>": 292}).encode()])
    published = (pathlib.Path(__file__).parents[2] / "model" / "architecture" / "published_configs.cc").read_text()
    configs = {name: config.encode() for name, config in re.findall(r'{"([^"]+)", R"\(({.*?})\s*\)"}', published, re.DOTALL)}
    for folder, files in (("config", configs), ("gguf", {"every_type": every_type, "llama": llama}),
                          ("gguf_model", {"llama": llama, "gpt2": gpt2}),
                          ("sentencepiece", pieces), ("tokenizer_files", {"gpt2_demo_beside": beside}),
                          ("tokenizer_json", json_files), ("weights", weights()),
                          ("diff", {name: with_quantization((corpus / "quantized" / name).read_bytes())
                                    for name in ("int4", "mxfp4", "palette", "uniform", "vectors", "windows")})):
        (corpus / folder).mkdir(parents=True, exist_ok=True)
        for name, contents in files.items():
            (corpus / folder / name).write_bytes(contents)


if __name__ == "__main__":
    main()
