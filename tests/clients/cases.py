"""What is exported, how, and which programs run it: the smallest set that has every format in its programs, the kinds of layer
that an exporter can get wrong (biases, fused projections, gains of 1 + w, windows, experts, sinks), and every kind of storage."""

INT4 = ["--preset", "int4-block"]
DEMO = "datasets/demo"
FAMILIES = "../shared/golden/families"  # random weights in the shapes of 36 families; not part of the repository
OWN_FAMILIES = "tests/data/families"  # and of some more, which are
MODELS_BESIDE = "../shared/models"

# K of these projections is no multiple of 32: no format holds blocks of 32 of them
NO_O_PROJ = ["--recipe", "o_proj.yaml"]
# ... and experts of 24
NO_O_PROJ_OR_NARROW = ["--recipe", "narrow.yaml"]
RECIPES = {
    "narrow_8.yaml": "defaults: {format: uniform, bits: 8, group_size: 32}\nlayers: [{match: 'o_proj|experts.*down_proj', format: float16}]\n",
    "narrow.yaml": "defaults: {format: int4-block}\nlayers: [{match: 'o_proj|experts.*down_proj', format: float16}]\n",
    "narrow_w2.yaml": "defaults: {format: int4-block}\nlayers: [{match: 'o_proj|experts.*w2', format: float16}]\n",
    "down_proj.yaml": "defaults: {format: int4-block}\nlayers: [{match: 'down_proj', format: float16}]\n",
    "output_linear.yaml": "defaults: {format: int4-block}\nlayers: [{match: 'output_linear', format: float16}]\n",
    "o_proj.yaml": "defaults: {format: int4-block}\nlayers: [{match: 'o_proj', format: float16}]\n",
    "output_linear.yaml": "defaults: {format: int4-block}\nlayers: [{match: 'output_linear', format: float16}]\n",
    # three widths at once: what per-layer settings are for
    "widths.yaml": "defaults: {format: uniform, bits: 4, group_size: 32}\nlayers: [{match: 'down_proj', bits: 8}, {match: 'up_proj', bits: 3, uniform_scale: extreme}]\n",
    # super-blocks of 256 inputs, which down_proj alone has: Q3_K and IQ4_XS
    "super_blocks.yaml": "defaults: {format: block-palette, palette: iq4_nl, search: error}\nlayers: [{match: '[0-2]\\\\.mlp\\\\.down_proj', format: uniform, bits: 3, group_size: 16, super_block: 256}, {match: 'down_proj', super_block: 256}]\n",
}

# name: (float checkpoint, how it is quantized)
MODELS = {
    "gpt2": (f"{DEMO}/gpt2-demo", INT4),
    "llama": (f"{DEMO}/llama-demo", INT4),
    "llama-zeros": (f"{DEMO}/llama-demo", [*INT4, "--set", "zero_point=true", "--set", "int4_scale=minmax"]),
    "llama-8": (f"{DEMO}/llama-demo", ["--set", "format=uniform", "--set", "bits=8", "--set", "group_size=64"]),
    "llama-widths": (f"{DEMO}/llama-demo", ["--recipe", "widths.yaml"]),
    "llama-iq4": (f"{DEMO}/llama-demo", ["--preset", "iq4_nl"]),
    "llama-super": (f"{MODELS_BESIDE}/llama-novels", ["--recipe", "super_blocks.yaml"]),
    "stories": (f"{MODELS_BESIDE}/stories260k", ["--recipe", "down_proj.yaml"]),  # SentencePiece vocabulary, which begins a text with a token of its own
    "qwen2": (f"{FAMILIES}/qwen2", INT4),  # biases of q, k, v
    "llama3": (f"{FAMILIES}/llama3", INT4),  # factors of rotary frequencies
    "fused": (f"{FAMILIES}/phi3", INT4),  # (not called phi3: llama.cpp goes by such a name, and wants Phi's special tokens) q, k, v in one tensor, gate and up in one
    "gemma2": (f"{FAMILIES}/gemma2", NO_O_PROJ),  # gains 1 + w, four norms, soft-caps, windows in alternate blocks
    "gemma3": (f"{FAMILIES}/gemma3", NO_O_PROJ),  # norms of q and k, two rotary bases
    "mistral": (f"{FAMILIES}/mistral", NO_O_PROJ),  # a window, heads wider than hidden / heads
    "mixtral": (f"{FAMILIES}/mixtral", INT4),  # experts
    "cohere2": (f"{OWN_FAMILIES}/cohere2", INT4),  # parallel blocks, logits scaled, a block without window and positions
    "arcee": (f"{OWN_FAMILIES}/arcee", INT4),  # no gate, squared ReLUs
    "ernie4_5": (f"{OWN_FAMILIES}/ernie4_5", NO_O_PROJ),  # heads turned pair by pair, biases everywhere
    "ernie4_5_moe": (f"{OWN_FAMILIES}/ernie4_5_moe", NO_O_PROJ_OR_NARROW),  # ... a correction of probabilities, shared experts, a dense block
    "glm": (f"{OWN_FAMILIES}/glm", INT4),  # half of each head turned pair by pair, gate and up in one tensor
    "granite4": (f"{OWN_FAMILIES}/granitemoehybrid", ["--recipe", "output_linear.yaml"]),  # multipliers, an MLP that mlx-lm takes apart
    "granite4-still": (f"{OWN_FAMILIES}/granitemoehybrid", ["--recipe", "output_linear.yaml"]),  # no head turns
    "granite4-8": (f"{OWN_FAMILIES}/granitemoehybrid", ["--set", "format=uniform", "--set", "bits=8", "--set", "group_size=16"]),  # no layer left float
    "ministral": (f"{OWN_FAMILIES}/ministral", INT4),  # windows in some blocks
    "ministral3": (f"{OWN_FAMILIES}/ministral3", NO_O_PROJ),  # queries that grow with their position, YaRN
    "seed_oss": (f"{OWN_FAMILIES}/seed_oss", NO_O_PROJ),  # a bias of o_proj by a key of its own
    "glm4_moe": (f"{OWN_FAMILIES}/glm4_moe", NO_O_PROJ_OR_NARROW),  # routers of sigmoids, a correction, a shared expert, a dense block
    "glm4_moe-8": (f"{OWN_FAMILIES}/glm4_moe", ["--recipe", "narrow_8.yaml"]),  # rounded to float16, 4 bits have another greedy text
    "dots1": (f"{OWN_FAMILIES}/dots1", NO_O_PROJ_OR_NARROW),  # ... in groups
    "dots1-one": (f"{OWN_FAMILIES}/dots1", NO_O_PROJ_OR_NARROW),  # ... in one
    "cwm": (f"{OWN_FAMILIES}/cwm", NO_O_PROJ),  # windows in most blocks, factors of rotary frequencies
    "helium": (f"{OWN_FAMILIES}/helium", INT4),
    "nanochat": (f"{OWN_FAMILIES}/nanochat", INT4),  # norms without gains, heads turned the other way, no gate
    "hunyuan": (f"{OWN_FAMILIES}/hunyuan_v1_dense", INT4),  # norms of q and k behind the rotary embedding
    "hyperclovax": (f"{OWN_FAMILIES}/hyperclovax", INT4),  # multipliers, norms behind attention and MLP
    "internlm3": (f"{OWN_FAMILIES}/internlm3", INT4),  # biases everywhere
    "iquestcoder": (f"{OWN_FAMILIES}/iquestcoder", NO_O_PROJ),
    "mellum": (f"{OWN_FAMILIES}/mellum", NO_O_PROJ_OR_NARROW),  # windowed blocks that turn by a base of their own
    "minimax_m2": (f"{OWN_FAMILIES}/minimax_m2", ["--recipe", "narrow_w2.yaml"]),  # ... a part of each head turned
    "vaultgemma": (f"{OWN_FAMILIES}/vaultgemma", NO_O_PROJ),  # gains 1 + w, two norms
    "ernie4_5-plain": (f"{OWN_FAMILIES}/ernie4_5", NO_O_PROJ),  # without biases, of which llama.cpp adds none
    "seed_oss-plain": (f"{OWN_FAMILIES}/seed_oss", NO_O_PROJ),  # without that of o_proj, which it does not add either
    "gpt_oss": (f"{FAMILIES}/gpt_oss", NO_O_PROJ),  # experts stacked, gate and up in alternate columns, biases, sinks
}

# Settings that a program computes otherwise, where its exporter refuses them or the result could not be compared
CONFIGURATIONS = {
    "gemma2": {"query_pre_attn_scalar": 12},  # llama.cpp divides scores by the square root of the heads' width
    "gemma3": {"query_pre_attn_scalar": 12},
    "gpt_oss": {"rope_parameters.truncate": True},  # llama.cpp rounds YaRN's range of dimensions to whole ones
    "ernie4_5-plain": {"use_bias": False},
    "seed_oss-plain": {"attention_out_bias": False},
    "dots1-one": {"n_group": 1, "topk_group": 1},  # mlx-lm leaves experts of other groups in with a score of 0
    "granite4-still": {"position_embedding_type": "nope"},
}
# ... and the tensors that go with them
WITHOUT = {"ernie4_5-plain": r"\.bias$", "seed_oss-plain": r"o_proj\.bias$"}


def is_family(checkpoint):
    """Random weights, and no tokenizer."""
    return any(families in str(checkpoint) for families in (FAMILIES, OWN_FAMILIES))


# (format, model, programs). A program is a file of programs/. gguf-float32: of the reference itself, which shows what the network
# is apart from the 8 bits that llama.cpp rounds activations to beside quantized weights.
EXPORTS = [
    ("dequantized", "gpt2", ["hugging_face"]),
    ("dequantized", "llama", ["hugging_face"]),
    ("gguf", "gpt2", ["llama_cpp"]),
    ("gguf", "llama", ["llama_cpp"]),
    ("gguf", "llama-zeros", ["llama_cpp"]),
    ("gguf", "llama-8", ["llama_cpp"]),
    ("gguf", "llama-widths", ["llama_cpp"]),
    ("gguf", "llama-iq4", ["llama_cpp"]),
    ("gguf", "llama-super", ["llama_cpp"]),
    ("gguf", "stories", ["llama_cpp"]),
    ("mlx", "gpt2", ["mlx"]),
    ("mlx", "llama", ["mlx"]),
    ("mlx", "llama-zeros", ["mlx"]),
    ("mlx", "llama-8", ["mlx"]),
    ("mlx", "llama-widths", ["mlx"]),
    ("compressed-tensors", "llama", ["hugging_face"]),
    ("compressed-tensors", "llama-8", ["hugging_face"]),
    ("compressed-tensors", "llama-widths", ["hugging_face"]),
    ("gptq", "gpt2", ["gptq_model"]),  # transformers takes no GPTQ of GPT-2
    ("gptq", "llama", ["gptq_model", "hugging_face"]),
    ("gptq", "llama-zeros", ["gptq_model", "hugging_face"]),
    ("gptq", "llama-8", ["gptq_model"]),
    ("awq", "llama", ["gptq_model", "hugging_face", "mlx"]),
    ("awq", "llama-zeros", ["hugging_face"]),  # mlx-lm turns zero points into biases of float16: 1.6e-4 of the logits
    ("coreml", "gpt2", ["core_ml"]),
    ("coreml", "llama", ["core_ml"]),
    *((f, m, [p]) for m in ("qwen2", "fused", "gemma2", "gemma3", "mistral", "mixtral", "cohere2", "gpt_oss", "arcee", "ernie4_5-plain", "glm", "granite4", "granite4-still", "ministral3", "seed_oss-plain")
      for f, p in (("dequantized", "hugging_face"), ("gguf", "llama_cpp"), ("gguf-float32", "llama_cpp"))),
    # gemma3 has fewer blocks here than mlx-lm wants (one without a window); gpt_oss: mlx-lm loads no float checkpoint to compare with
    *(("mlx", m, ["mlx"]) for m in ("qwen2", "fused", "gemma2", "mistral", "mixtral")),
    *((f, m, ["hugging_face"]) for m in ("qwen2", "fused", "mistral") for f in ("compressed-tensors", "gptq", "awq") if (f, m) != ("gptq", "mistral")),
    # not gptq of mistral: transformers does not know which layers gptqmodel left out, whose own kernel wants 16 outputs or more
    *(("dequantized", m, ["hugging_face"]) for m in ("ernie4_5_moe", "glm4_moe-8", "dots1")),
    *((f, m, ["llama_cpp"]) for m in ("ernie4_5_moe", "glm4_moe", "dots1") for f in ("gguf", "gguf-float32")),
    *(("mlx", m, ["mlx"]) for m in ("glm4_moe", "dots1-one")),
    *(("mlx", m, ["mlx"]) for m in ("cohere2", "ernie4_5", "granite4", "ministral", "ministral3", "seed_oss")),
    *((f, m, ["hugging_face"]) for m in ("arcee", "cohere2", "ernie4_5", "glm", "granite4", "ministral", "ministral3", "seed_oss") for f in ("compressed-tensors", "awq")),
    *(("gptq", m, ["hugging_face"]) for m in ("glm", "granite4-8")),  # gptqmodel itself does not load these
    *(("gptq", m, ["gptq_model"]) for m in ("arcee", "cohere2", "cwm", "ernie4_5", "helium", "hunyuan", "hyperclovax", "internlm3", "iquestcoder", "ministral", "ministral3", "seed_oss")),
    *((f, m, ["hugging_face"]) for m in ("cwm", "helium", "hunyuan", "hyperclovax", "internlm3", "iquestcoder", "vaultgemma") for f in ("dequantized", "compressed-tensors", "awq")),
    *(("dequantized", m, ["hugging_face"]) for m in ("mellum", "minimax_m2", "nanochat")),
    *((f, m, ["llama_cpp"]) for m in ("hunyuan", "internlm3", "iquestcoder", "minimax_m2") for f in ("gguf", "gguf-float32")),
    *(("mlx", m, ["mlx"]) for m in ("helium", "hunyuan", "internlm3", "iquestcoder", "minimax_m2")),
    *(("coreml", m, ["core_ml"]) for m in ("qwen2", "hunyuan")),
    *((f, "llama3", ["llama_cpp"]) for f in ("gguf", "gguf-float32")),
]

LOGITS_LIMIT = {"hugging_face": 1e-5, "gptq_model": 1e-5, "mlx": 1e-5, "llama_cpp": 1e-2, "core_ml": 2e-3}
ROUNDED_LIMIT = 2e-3  # where weights are rounded to float16, 2^-11 each; networks of random weights hardly average it out
PERPLEXITY_LIMIT = 1e-3
FLOAT32_LIMIT = 5e-4  # of a GGUF file of floats: 1e-6, but for GELU, which llama.cpp looks up in a table of float16
AMPLIFIED_LIMIT = 0.2  # of llama.cpp's 8 bits in the families' random networks: nothing averages out, experts are chosen otherwise
DAMAGED = "llama"  # of its exports, the checks are shown copies with faults

# Where a program takes a family for something else beyond so many tokens: it has no window for these
FULL_ATTENTION_ONLY = {("mlx", "mistral"): 12, ("mlx", "fused"): 12, ("mlx", "gemma2"): 12, ("llama_cpp", "mistral"): 12, ("llama_cpp", "fused"): 12, ("llama_cpp", "dots1"): 12, ("mlx", "dots1-one"): 12}
