#!/usr/bin/env python3
"""Writes those files fuzzing starts from that are not written by hand: of tests/fuzz/corpus, config, gguf, gguf_model,
sentencepiece and tokenizer_json.

GGUF: one file with a row of every block type; one llama and one gpt2 with a tokenizer of each kind. Plain struct.pack by
the format's own description, no package: what is written does not depend on anybody's version.
Tokenizers: from tests/data/tokenizers. Configurations: the published ones that the program knows.
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
    published = (pathlib.Path(__file__).parents[2] / "model" / "architecture" / "published_configs.cc").read_text()
    configs = {name: config.encode() for name, config in re.findall(r'{"([^"]+)", R"\(({.*?})\s*\)"}', published, re.DOTALL)}
    for folder, files in (("config", configs), ("gguf", {"every_type": every_type, "llama": llama}),
                          ("gguf_model", {"llama": llama, "gpt2": gpt2}),
                          ("sentencepiece", pieces), ("tokenizer_json", json_files)):
        (corpus / folder).mkdir(parents=True, exist_ok=True)
        for name, contents in files.items():
            (corpus / folder / name).write_bytes(contents)


if __name__ == "__main__":
    main()
