#!/usr/bin/env python3
"""Makes NAME/{config.json,model.safetensors,golden.safetensors}: small random models of families, saved by transformers
in float16, and what it computes of them in float32 with eager attention.

usage: make_families.py DIRECTORY [NAME …]
needs: pip install torch==2.15.0 transformers==5.23.0 (tests/clients/setup.sh has both)
"""
import json
import pathlib
import sys
import zlib

import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

VOCABULARY, WINDOWS, LENGTH, PROMPT = 320, 2, 48, 8
FIRST_TOKEN = 4  # what is before stands for begins, ends and pictures, and is in no text
PICTURE = 3
WINDOW = 12  # shorter than the text
OTHER_PARTS = ("vision", "visual", "projector", "connector")  # than the language model, of models that see

# what all of them are, unless said
TEXT = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=None)
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4)

QWEN_VISION = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, patch_size=4)

MODELS = {
    "arcee": dict(TEXT, model_type="arcee"),
    "cohere2": dict(TEXT, model_type="cohere2", logit_scale=0.25, sliding_window=WINDOW),  # the last block sees all
    # rotary embeddings by Llama 3's rule; the first block sees all
    "cwm": dict(
        TEXT, model_type="cwm", head_dim=12, sliding_window=WINDOW, rope_parameters=dict(
            rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=16)),
    # groups of experts, windows in the last two blocks
    "dots1": dict(
        dict(TEXT, num_key_value_heads=4), model_type="dots1", head_dim=12, n_routed_experts=6, num_experts_per_tok=3, n_group=3, topk_group=2,
        n_shared_experts=2, moe_intermediate_size=24, first_k_dense_replace=1, routed_scaling_factor=1.5,
        norm_topk_prob=False, sliding_window=WINDOW, max_window_layers=2),
    "ernie4_5": dict(TEXT, model_type="ernie4_5", head_dim=12, use_bias=True),
    # a correction of probabilities
    "ernie4_5_moe": dict(
        TEXT, model_type="ernie4_5_moe", moe_num_experts=6, moe_k=3, moe_num_shared_experts=2, moe_intermediate_size=24,
        moe_layer_start_index=1),
    "glm": dict(TEXT, model_type="glm", head_dim=8),
    "glm4_moe": dict(
        TEXT, model_type="glm4_moe", head_dim=12, attention_bias=True, use_qk_norm=True, n_routed_experts=6,
        num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=24, first_k_dense_replace=1,
        routed_scaling_factor=2.5, num_mtp_layers=0),
    "granitemoehybrid": dict(
        TEXT, model_type="granitemoehybrid", layer_types=["attention"] * 4, num_local_experts=0, num_experts_per_tok=0,
        shared_intermediate_size=48, position_embedding_type="rope", embedding_multiplier=3.0, logits_scaling=2.0,
        residual_multiplier=0.5, attention_multiplier=0.2, mamba_n_heads=4),
    "helium": dict(TEXT, model_type="helium", head_dim=8),
    # a rotary base that is stretched once, norms behind the rotary embedding
    "hunyuan_v1_dense": dict(
        TEXT, model_type="hunyuan_v1_dense", head_dim=8,
        rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, alpha=100.0, factor=1.0)),
    "hyperclovax": dict(
        TEXT, model_type="hyperclovax", head_dim=8, embedding_multiplier=3.0, logits_scaling=0.5, residual_multiplier=0.5,
        attention_multiplier=0.2),
    "internlm3": dict(TEXT, model_type="internlm3", head_dim=8, attention_bias=True, mlp_bias=True),
    "iquestcoder": dict(TEXT, model_type="iquestcoder", head_dim=12),
    # blocks with windows turn by a base of their own; one block is no mixture
    "mellum": dict(
        TEXT, model_type="mellum", head_dim=12, sliding_window=WINDOW, num_local_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=24, mlp_layer_types=["sparse", "dense", "sparse", "sparse"],
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"],
        rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=500000.0),
                             sliding_attention=dict(rope_type="default", rope_theta=10000.0))),
    # two thirds of each head turn
    "minimax_m2": dict(
        TEXT, model_type="minimax_m2", intermediate_size=24, head_dim=12, rotary_dim=8, num_local_experts=6,
        num_experts_per_tok=3),
    "ministral": dict(
        TEXT, model_type="ministral", head_dim=8, sliding_window=WINDOW,
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"]),
    # queries that grow from position 24 on
    "ministral3": dict(
        TEXT, model_type="ministral3", head_dim=8, rope_parameters=dict(
            rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=24, mscale=1.0,
            mscale_all_dim=1.0, llama_4_scaling_beta=0.3)),
    # norms without gains, behind a rotary embedding that turns the other way
    "nanochat": dict(TEXT, model_type="nanochat"),
    "vaultgemma": dict(TEXT, model_type="vaultgemma", head_dim=12, query_pre_attn_scalar=8, sliding_window=WINDOW),
    "seed_oss": dict(TEXT, model_type="seed_oss", head_dim=12, attention_out_bias=True),
    # pictures beside text, of which only the text is asked for
    "gemma3-sees": dict(
        model_type="gemma3", mm_tokens_per_image=4, boi_token_index=0, eoi_token_index=0, image_token_index=PICTURE,
        text_config=dict(TEXT, head_dim=12, query_pre_attn_scalar=8, sliding_window=WINDOW,
                         layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]),
        vision_config=dict(VISION, model_type="siglip_vision_model")),
    "llava-sees": dict(
        model_type="llava", tie_word_embeddings=False, image_token_index=PICTURE, vision_feature_layer=-1,
        image_seq_length=4, text_config=dict(TEXT, model_type="llama", rms_norm_eps=1e-5, tie_word_embeddings=False),
        vision_config=dict(VISION, model_type="clip_vision_model", projection_dim=16)),
    "mistral3-sees": dict(
        model_type="mistral3", tie_word_embeddings=False, image_token_index=PICTURE, vision_feature_layer=-1,
        spatial_merge_size=1,
        text_config=dict(TEXT, model_type="mistral", head_dim=12, sliding_window=WINDOW, tie_word_embeddings=False),
        vision_config=dict(VISION, model_type="pixtral", head_dim=8)),
    # one position for time, height and width: that of the text
    "qwen2_5_vl-sees": dict(
        model_type="qwen2_5_vl", tie_word_embeddings=False, image_token_id=PICTURE, video_token_id=PICTURE,
        vision_start_token_id=0, vision_end_token_id=0,
        text_config=dict(TEXT, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=2,
                         rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[1, 2, 1])),
        vision_config=QWEN_VISION),
    # its files as they are older: what text_config says beside vision_config, without defaults
    "qwen2_5_vl-old": dict(
        model_type="qwen2_5_vl", image_token_id=PICTURE, video_token_id=PICTURE, vision_start_token_id=0,
        vision_end_token_id=0, vision_config=QWEN_VISION,
        text_config=dict(TEXT, rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[1, 1, 2]))),
    "qwen3_vl-sees": dict(
        model_type="qwen3_vl", tie_word_embeddings=True, image_token_id=PICTURE, video_token_id=PICTURE,
        vision_start_token_id=0, vision_end_token_id=0,
        text_config=dict(TEXT, head_dim=12, tie_word_embeddings=True, rope_parameters=dict(
            rope_type="default", rope_theta=10000.0, mrope_section=[2, 2, 2], mrope_interleaved=True)),
        vision_config=dict(QWEN_VISION, deepstack_visual_indexes=[0], num_position_embeddings=4)),
    "internvl-sees": dict(
        model_type="internvl", tie_word_embeddings=False, image_token_id=PICTURE, image_seq_length=1,
        text_config=dict(TEXT, model_type="qwen2"), vision_config=dict(VISION, image_size=[8, 8], patch_size=[4, 4])),
    "aya_vision-sees": dict(
        model_type="aya_vision", image_token_index=PICTURE,
        text_config=dict(TEXT, model_type="cohere2", logit_scale=0.25, sliding_window=WINDOW),
        vision_config=dict(VISION, model_type="siglip_vision_model", vision_use_head=False)),
    "smolvlm-sees": dict(
        model_type="smolvlm", tie_word_embeddings=False, image_token_id=PICTURE,
        text_config=dict(TEXT, model_type="llama", rms_norm_eps=1e-5), vision_config=VISION),
}


def set_weights(model, generator):
    """Generous sizes, so that every part shows in the logits; no gain is 1, no bias 0. All are float16 numbers."""
    plus_one = model.config.model_type.startswith(("gemma", "vaultgemma"))  # gains of 1 + w
    for name, weight in model.named_parameters():
        values = torch.from_numpy(generator.standard_normal(tuple(weight.shape))).float()
        if weight.dim() == 1:
            is_gain = name.endswith("norm.weight") or "norm" in name.split(".")[-2] and name.endswith("weight")
            values = 0.3 * values + (1.0 if is_gain and not plus_one else 0.0)
        elif "embed_tokens" in name:
            values *= 0.8
        else:
            values *= 1.3 / (weight.shape[-1] if "experts" in name else weight[0].numel()) ** 0.5
        with torch.no_grad():
            weight.copy_(values.half().float())
    size = 0.1 if model.config.model_type == "ernie4_5_moe" else 0.3  # of probabilities, of sigmoids
    for values in corrections(model):
        values.data.copy_(size * torch.from_numpy(generator.standard_normal(tuple(values.shape))).float())


def corrections(model):
    """What is added to scores of experts: float32 in every file."""
    return [values for name, values in [*model.named_buffers(), *model.named_parameters()]
            if name.endswith("e_score_correction_bias")]


def flatten(path):
    """Rewrites config.json as Qwen2.5-VL's were in 2025: transformers reads that alike."""
    config = json.loads(path.read_text())
    text = config.pop("text_config")
    section = text["rope_parameters"]["mrope_section"]
    for key in ("model_type", "dtype", "layer_types", "rope_parameters", "rms_norm_eps"):
        del text[key]
    config["torch_dtype"] = config.pop("dtype")
    config |= text | dict(rope_scaling=dict(type="mrope", mrope_section=section), vision_token_id=0)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def logits_of(model, tokens):
    logits = model(input_ids=tokens, use_cache=False).logits
    # Aya Vision's class leaves out what its language model's own class multiplies by.
    return logits * model.config.text_config.logit_scale if model.config.model_type == "aya_vision" else logits


def losses_of(logits, tokens):
    return torch.nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), tokens[:, 1:], reduction="none").mean(1)


def greedy(model, prompt, count):
    text = prompt
    for _ in range(count):
        last = logits_of(model, text)[0, -1]
        best = last.topk(2)
        if best.values[0] - best.values[1] < 1e-3:
            raise SystemExit("a choice that roundings may turn: take another seed")
        text = torch.cat([text, best.indices[:1][None]], 1)
    return text[0]


def linear_weights(model):
    """Every matrix of the text's linear layers: what of a parameter it is, from the parameter's values or gradient.
    Experts are slices of stacks, gate and up halves of those."""
    parts = []
    for module, part in model.named_modules():
        if any(other in module for other in OTHER_PARTS):
            continue
        is_router = type(part).__name__.endswith("Router")
        if (isinstance(part, torch.nn.Linear) or is_router) and part.weight is not model.get_input_embeddings().weight:
            parts.append((part.weight, lambda values: values))
        for name, weight in part.named_parameters(recurse=False):
            if weight.dim() != 3:
                continue
            for e, pieces in enumerate(2 * [weight.shape[1] // 2] if name == "gate_up_proj" else [weight.shape[1]]
                                       for _ in range(len(weight))):
                for i in range(len(pieces)):
                    parts.append((weight, lambda values, e=e, pieces=pieces, i=i: values[e].split(pieces)[i]))
    return parts


def names_in_file(parts, file):
    """Of every one of these matrices, what the file calls it: the one tensor there of the same values."""
    with safe_open(file, "pt") as stored:
        by_value = {stored.get_tensor(name).numpy().tobytes(): name for name in stored.keys()}
    return [by_value[part(weight.detach()).half().contiguous().numpy().tobytes()] for weight, part in parts]


def make(name, settings, directory):
    seed = zlib.crc32(name.encode())
    config = transformers.AutoConfig.for_model(**settings)
    sees = "text_config" in settings
    auto = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
    model = auto.from_config(config, dtype=torch.float32).eval()
    generator = np.random.default_rng(seed)
    set_weights(model, generator)
    for part in (model.config.get_text_config(), getattr(model.config, "vision_config", model.config)):
        part.dtype = torch.float16  # half() says so of the whole alone
    model.half()
    for values in corrections(model):
        values.data = values.float()
    model.save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    if name.endswith("-old"):
        flatten(directory / "config.json")

    model = auto.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager",
                                 experts_implementation="eager").eval()
    tokens = torch.from_numpy(generator.integers(FIRST_TOKEN, VOCABULARY, (WINDOWS, LENGTH)))
    parts = linear_weights(model)
    names = names_in_file(parts, directory / "model.safetensors")
    golden = {f"fisher.{n}": torch.zeros_like(part(weight)) for n, (weight, part) in zip(names, parts)}
    all_logits, all_losses = [], []
    for window in tokens.split(1):
        model.zero_grad()
        logits = logits_of(model, window)
        losses_of(logits, window).sum().backward()
        for n, (weight, part) in zip(names, parts):
            golden[f"fisher.{n}"] += part(weight.grad) ** 2
        all_logits.append(logits.detach())
        all_losses.append(losses_of(logits.detach().double(), window))
    golden["tokens"], golden["logits"], golden["losses"] = tokens, torch.cat(all_logits), torch.cat(all_losses)
    with torch.no_grad():
        golden["greedy"] = greedy(model, tokens[:1, :PROMPT], 24)
        exact = logits_of(model.double(), tokens)
    error = ((golden["logits"] - exact).square().mean() / exact.square().mean()).sqrt().item()
    if error > 2e-6:
        raise SystemExit(f"{name}: rounding moves the logits by {error:.1e}: of too generous a size")
    save_file({key: value.contiguous() for key, value in golden.items()}, directory / "golden.safetensors")
    print(f"{name}: losses {golden['losses'].tolist()}, roundings {error:.1e}")


def main():
    directory, names = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(MODELS)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in names:
        make(name, MODELS[name], directory / name)


if __name__ == "__main__":
    main()
