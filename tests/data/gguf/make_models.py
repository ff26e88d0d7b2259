#!/usr/bin/env python3
"""Makes NAME.gguf and NAME.json: small random models of five families, each with a vocabulary of its own kind, laid out
as llama.cpp's converter lays them out, and what transformers, tokenizers and sentencepiece make of them.

usage: make_models.py DIRECTORY TEXT
needs: pip install torch==2.15.0 transformers==5.23.0 gguf==0.19.0 sentencepiece==0.2.3

Matrices are Q8_0, or F16 or F32 where the converter keeps them so; the logits are of the decoded values.
"""
import io
import json
import pathlib
import sys
import tempfile

import numpy as np
import sentencepiece
import torch
import transformers
from gguf import MODEL_ARCH, GGMLQuantizationType, GGUFWriter, get_tensor_name_map
from gguf.quants import dequantize, quantize
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TEXTS = ["Hello, world!", "  two  spaces and\ttabs\n\nlines ", "I'll say: don't 12345 3.14", "naïve café — “quoted”",
         "e\u0301 composed é", "日本語 и русский", "\U0001F600 smile", "a<|end|>b <s>", "ALL CAPS're SHOUTED", "x=y+z;//{}", ""]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def bpe(text, size, pattern, specials, nfc=False, ignore_merges=False):
    """A trained byte-level BPE, its tokens, kinds and merges."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    model = json.loads(tokenizer.to_str())["model"]
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    kinds = [3 if token in specials else 1 for token in tokens]
    return {"model": "gpt2", "tokens": tokens, "kinds": kinds, "merges": [" ".join(pair) for pair in model["merges"]],
            "ids": [tokenizer.encode(t, add_special_tokens=False).ids for t in TEXTS]}


def sentence_piece(text, size, prefix, user_defined):
    """A trained SentencePiece BPE. The control tokens in texts are left out: a special token is an id to llama.cpp."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "text.txt"
        file.write_text(text)
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            input=str(file), model_writer=model, vocab_size=size, model_type="bpe", byte_fallback=True,
            character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False,
            add_dummy_prefix=prefix, user_defined_symbols=user_defined, minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(processor.get_piece_size())
    kind = lambda i: (6 if processor.is_byte(i) else 2 if processor.is_unknown(i) else 3 if processor.is_control(i)
                      else 4 if processor.id_to_piece(i) in user_defined else 1)
    return {"model": "llama", "tokens": [processor.id_to_piece(i) for i in ids], "kinds": [kind(i) for i in ids],
            "scores": [processor.get_score(i) for i in ids], "prefix": prefix,
            "ids": [processor.encode(t) if "<s>" not in t else None for t in TEXTS]}


def interleaved(rows, heads):
    """Rows of q or k as the converter moves them where llama.cpp turns neighbours."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


COMMON = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
              max_position_embeddings=128)


def gemma2(vocabulary):
    config = transformers.Gemma2Config(**COMMON, vocab_size=vocabulary, head_dim=16, sliding_window=8, query_pre_attn_scalar=16,
                                       attn_logit_softcapping=50.0, final_logit_softcapping=30.0, tie_word_embeddings=True)

    def keys(w):
        w.add_key_length(16), w.add_value_length(16), w.add_layer_norm_rms_eps(config.rms_norm_eps)
        w.add_attn_logit_softcapping(50.0), w.add_final_logit_softcapping(30.0), w.add_sliding_window(8)

    return MODEL_ARCH.GEMMA2, config, keys, lambda n, t: [(n, t + 1 if "norm" in n else t)]


def phi3(vocabulary):
    config = transformers.Phi3Config(**COMMON, vocab_size=vocabulary, tie_word_embeddings=False, pad_token_id=0, sliding_window=None)

    def keys(w):
        w.add_layer_norm_rms_eps(config.rms_norm_eps), w.add_rope_dimension_count(8), w.add_rope_freq_base(10000.0)
        w.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings), w.add_sliding_window(0)

    return MODEL_ARCH.PHI3, config, keys, lambda n, t: [(n, t)]


def mixtral(vocabulary):
    config = transformers.MixtralConfig(**COMMON, vocab_size=vocabulary, num_local_experts=4, num_experts_per_tok=2,
                                        tie_word_embeddings=False, sliding_window=None)

    def keys(w):
        w.add_layer_norm_rms_eps(config.rms_norm_eps), w.add_rope_dimension_count(8), w.add_rope_freq_base(1e6)
        w.add_expert_count(4), w.add_expert_used_count(2)

    def place(name, tensor):
        if "q_proj" in name or "k_proj" in name:
            return [(name, interleaved(tensor, 4 if "q_proj" in name else 2))]
        layer = name.split(".")[2] if "layers" in name else ""
        if name.endswith("experts.gate_up_proj"):
            return [(f"layers.{layer}.feed_forward.experts.w1", tensor[:, :64]), (f"layers.{layer}.feed_forward.experts.w3", tensor[:, 64:])]
        if name.endswith("experts.down_proj"):
            return [(f"layers.{layer}.feed_forward.experts.w2", tensor)]
        return [(name.replace("mlp.gate", "block_sparse_moe.gate"), tensor)]

    return MODEL_ARCH.LLAMA, config, keys, place


def gpt_neox(vocabulary):
    config = transformers.GPTNeoXConfig(**{k: v for k, v in COMMON.items() if k != "num_key_value_heads"}, vocab_size=vocabulary,
                                        rotary_pct=0.5, use_parallel_residual=True, hidden_act="gelu", tie_word_embeddings=False)

    def keys(w):
        w.add_layer_norm_eps(config.layer_norm_eps), w.add_rope_dimension_count(4), w.add_parallel_residual(True)

    def place(name, tensor):
        if "query_key_value" in name:  # by heads there, by kind in the file
            rest = tensor.shape[1:]
            tensor = tensor.reshape(4, 3, 8, *rest).swapaxes(0, 1).reshape(96, *rest)
        return [(name, tensor)]

    return MODEL_ARCH.GPTNEOX, config, keys, place


def qwen3(vocabulary):
    config = transformers.Qwen3Config(**COMMON, vocab_size=vocabulary, head_dim=16, rope_theta=1e6, tie_word_embeddings=True)

    def keys(w):
        w.add_key_length(16), w.add_value_length(16), w.add_layer_norm_rms_eps(config.rms_norm_eps)
        w.add_rope_freq_base(config.rope_parameters["rope_theta"])

    return MODEL_ARCH.QWEN3, config, keys, lambda n, t: [(n, t)]


def block_type(name, tensor):
    if tensor.ndim == 1 or "ffn_gate_inp" in name:
        return GGMLQuantizationType.F32
    return GGMLQuantizationType.F16 if "attn_v" in name else GGMLQuantizationType.Q8_0


def make(folder, name, family, pre, tokenizer):
    torch.manual_seed(5)
    size = len(tokenizer["tokens"])
    arch, config, keys, place = family(size)
    config.bos_token_id, config.eos_token_id = 1, 2
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for tensor in model.parameters():  # norms near 1, weights large enough for attention to choose
        tensor.data = tensor.data * 1.0 + torch.randn_like(tensor) * (0.1 if tensor.ndim == 1 else 0.25)
    state = {k: v for k, v in model.state_dict().items() if not (config.tie_word_embeddings and k == "lm_head.weight")}
    names = get_tensor_name_map(arch, config.num_hidden_layers)
    writer = GGUFWriter(folder / f"{name}.gguf", {MODEL_ARCH.LLAMA: "llama", MODEL_ARCH.GEMMA2: "gemma2", MODEL_ARCH.PHI3: "phi3",
                                                  MODEL_ARCH.GPTNEOX: "gptneox", MODEL_ARCH.QWEN3: "qwen3"}[arch])
    writer.add_context_length(config.max_position_embeddings), writer.add_embedding_length(32)
    writer.add_block_count(2), writer.add_feed_forward_length(64), writer.add_head_count(4)
    writer.add_head_count_kv(getattr(config, "num_key_value_heads", 4))
    keys(writer)
    writer.add_tokenizer_model(tokenizer["model"]), writer.add_token_list(tokenizer["tokens"]), writer.add_token_types(tokenizer["kinds"])
    if tokenizer["model"] == "gpt2":
        writer.add_tokenizer_pre(pre), writer.add_token_merges(tokenizer["merges"])
    else:
        writer.add_token_scores(tokenizer["scores"]), writer.add_add_space_prefix(tokenizer["prefix"])
    writer.add_bos_token_id(1), writer.add_eos_token_id(2), writer.add_add_bos_token(False)
    decoded = {}
    for key, value in state.items():
        placed, kept = place(key, value.numpy()), []
        for source, tensor in placed:
            stem, dot, suffix = source.rpartition(".")
            target = names.get_name(source) or names.get_name(stem)
            assert target, source
            target += "" if target.endswith((".weight", ".bias")) else "." + (suffix if suffix in ("weight", "bias") else "weight")
            kind = block_type(target, tensor)
            blocks = quantize(np.ascontiguousarray(tensor, np.float32), kind)
            writer.add_tensor(target, blocks, raw_dtype=kind)
            kept.append(dequantize(blocks, kind).reshape(tensor.shape).astype(np.float32))
        decoded[key] = kept
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
    with torch.no_grad():
        for key, kept in decoded.items():  # back through the inverse of place(), found by trying where each element went
            original = state[key].numpy()
            marks = np.arange(original.size, dtype=np.float64).reshape(original.shape)
            offset = 1 if arch == MODEL_ARCH.GEMMA2 and "norm" in key else 0
            values = np.empty(original.size, np.float32)
            for (_, moved), part in zip(place(key, marks), kept):
                values[(moved - offset).astype(np.int64).ravel()] = (part - np.float32(offset)).ravel()
            state[key].copy_(torch.from_numpy(values.reshape(original.shape)))
        prompt = np.random.default_rng(7).integers(3, size, 24).tolist()
        logits = model(torch.tensor([prompt])).logits[0]
        chosen = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False, pad_token_id=0, eos_token_id=[size + 1])[0, 24:]
    golden = {"texts": [t for t, i in zip(TEXTS, tokenizer["ids"]) if i is not None], "ids": [i for i in tokenizer["ids"] if i is not None],
              "prompt": prompt, "logits": [[float(f"{v:.7g}") for v in logits[row]] for row in (11, 23)], "greedy": chosen.tolist()}
    (folder / f"{name}.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


def main():
    folder, text = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text()[:200_000]
    make(folder, "gemma2", gemma2, None, sentence_piece(text, 384, False, ["<|end|>"]))
    make(folder, "phi3", phi3, None, sentence_piece(text, 400, True, []))
    make(folder, "mixtral", mixtral, "llama-bpe", bpe(text, 350, LLAMA3, ["<s>", "<|end|>"], ignore_merges=True))
    make(folder, "gptneox", gpt_neox, "olmo", bpe(text, 340, GPT2, ["<|end|>"]))
    make(folder, "qwen3", qwen3, "qwen2", bpe(text, 360, QWEN2, ["<s>", "<|end|>"], nfc=True))


if __name__ == "__main__":
    main()
