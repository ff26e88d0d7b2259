#include <gtest/gtest.h>

#include "model/architecture/families.h"

// Published configurations with all the keys that they carry: each must be understood, and give the number of
// parameters that the published file has.

namespace nibble::test {
namespace {

struct WildConfig {
  const char* name;
  const char* json;
  std::uint64_t parameters;
};

constexpr WildConfig kConfigs[] = {
    {"Falcon7b",
     R"({"alibi": false, "apply_residual_connection_post_layernorm": false, "architectures": ["FalconForCausalLM"],
 "attention_dropout": 0.0, "auto_map": {"AutoConfig": "configuration_falcon.FalconConfig"}, "bias": false,
 "bos_token_id": 11, "eos_token_id": 11, "hidden_dropout": 0.0, "hidden_size": 4544, "initializer_range": 0.02,
 "layer_norm_epsilon": 1e-05, "model_type": "falcon", "multi_query": true, "new_decoder_architecture": false,
 "num_attention_heads": 71, "num_hidden_layers": 32, "parallel_attn": true, "torch_dtype": "bfloat16",
 "transformers_version": "4.27.4", "use_cache": true, "vocab_size": 65024})",
     6921720704},
    {"Falcon40b",
     R"({"alibi": false, "architectures": ["FalconForCausalLM"], "bias": false, "bos_token_id": 11, "eos_token_id": 11,
 "hidden_size": 8192, "layer_norm_epsilon": 1e-05, "model_type": "falcon", "multi_query": true,
 "new_decoder_architecture": true, "num_attention_heads": 128, "num_hidden_layers": 60, "num_kv_heads": 8,
 "parallel_attn": true, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 65024})",
     41303293952},
    {"FalconRw1b",
     R"({"alibi": true, "apply_residual_connection_post_layernorm": false, "architectures": ["FalconForCausalLM"],
 "bias": true, "bos_token_id": 1, "eos_token_id": 2, "hidden_size": 2048, "layer_norm_epsilon": 1e-05,
 "model_type": "falcon", "multi_query": false, "new_decoder_architecture": false, "num_attention_heads": 32,
 "num_hidden_layers": 24, "parallel_attn": false, "torch_dtype": "bfloat16", "vocab_size": 50304})",
     1311625216},
    {"Bloom560m", R"({"apply_residual_connection_post_layernorm": false, "attention_dropout": 0.0,
 "attention_softmax_in_fp32": true, "bias_dropout_fusion": true, "bos_token_id": 1, "eos_token_id": 2,
 "pad_token_id": 3, "unk_token_id": 0, "hidden_dropout": 0.0, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
 "masked_softmax_fusion": true, "model_type": "bloom", "n_embed": 1024, "n_inner": null, "n_layer": 24,
 "num_attention_heads": 16, "offset_alibi": 100, "pretraining_tp": 1, "seq_length": 2048, "skip_bias_add": true,
 "skip_bias_add_qkv": false, "slow_but_exact": false, "transformers_version": "4.20.0", "use_cache": true,
 "vocab_size": 250880})",
     559214592},
    {"GptNeo125m",
     R"({"activation_function": "gelu_new", "architectures": ["GPTNeoForCausalLM"], "attention_dropout": 0,
 "attention_layers": ["global", "local", "global", "local", "global", "local", "global", "local", "global", "local",
 "global", "local"], "attention_types": [[["global", "local"], 6]], "bos_token_id": 50256, "embed_dropout": 0,
 "eos_token_id": 50256, "gradient_checkpointing": false, "hidden_size": 768, "initializer_range": 0.02,
 "intermediate_size": null, "layer_norm_epsilon": 1e-05, "max_position_embeddings": 2048, "model_type": "gpt_neo",
 "num_heads": 12, "num_layers": 12, "resid_dropout": 0, "summary_activation": null, "summary_first_dropout": 0.1,
 "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
 "transformers_version": "4.9.0.dev0", "use_cache": true, "vocab_size": 50257, "window_size": 256})",
     125198592},
    {"GptJ6b", R"({"activation_function": "gelu_new", "architectures": ["GPTJForCausalLM"], "attn_pdrop": 0.0,
 "bos_token_id": 50256, "embd_pdrop": 0.0, "eos_token_id": 50256, "gradient_checkpointing": false,
 "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gptj", "n_embd": 4096, "n_head": 16,
 "n_inner": null, "n_layer": 28, "n_positions": 2048, "resid_pdrop": 0.0, "rotary": true, "rotary_dim": 64,
 "scale_attn_weights": true, "summary_activation": null, "summary_type": "cls_index",
 "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50, "temperature": 1.0}},
 "tie_word_embeddings": false, "tokenizer_class": "GPT2Tokenizer", "use_cache": true, "vocab_size": 50400})",
     6050882784},
    {"StarCoder2",
     R"({"activation_function": "gelu", "architectures": ["Starcoder2ForCausalLM"], "attention_dropout": 0.1,
 "residual_dropout": 0.1, "embedding_dropout": 0.1, "attention_softmax_in_fp32": true, "bos_token_id": 0,
 "eos_token_id": 0, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 3072, "initializer_range": 0.018042,
 "intermediate_size": 12288, "layer_norm_epsilon": 1e-05, "max_position_embeddings": 16384, "mlp_type": "default",
 "model_type": "starcoder2", "norm_epsilon": 1e-05, "norm_type": "layer_norm", "num_attention_heads": 24,
 "num_hidden_layers": 30, "num_key_value_heads": 2, "rope_theta": 999999.4420358813,
 "scale_attention_softmax_in_fp32": true, "scale_attn_weights": true, "sliding_window": 4096,
 "torch_dtype": "bfloat16", "use_bias": true, "use_cache": true, "vocab_size": 49152})",
     3030371328},
    {"StableLm2", R"({"architectures": ["StableLmForCausalLM"], "bos_token_id": 100257, "eos_token_id": 100257,
 "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5632,
 "max_position_embeddings": 4096, "model_type": "stablelm", "layer_norm_eps": 1e-05, "num_attention_heads": 32,
 "num_hidden_layers": 24, "num_key_value_heads": 32, "partial_rotary_factor": 0.25, "rope_theta": 10000,
 "tie_word_embeddings": false, "torch_dtype": "float16", "use_cache": true, "use_qkv_bias": true,
 "vocab_size": 100352})",
     1644515328},
    {"Nemotron4Mini",
     R"({"architectures": ["NemotronForCausalLM"], "bos_token_id": 2, "eos_token_id": 3, "hidden_act": "relu2",
 "hidden_size": 3072, "initializer_range": 0.0134, "intermediate_size": 9216, "kv_channels": 128,
 "max_position_embeddings": 4096, "model_type": "nemotron", "norm_eps": 1e-05, "num_attention_heads": 24,
 "num_hidden_layers": 32, "num_key_value_heads": 8, "partial_rotary_factor": 0.5, "rope_theta": 10000,
 "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 256000})",
     4190509056},
    {"SmolLm3", R"({"architectures": ["SmolLM3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
 "bos_token_id": null, "eos_token_id": 128012, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
 "intermediate_size": 11008, "max_position_embeddings": 65536, "max_window_layers": 28, "mlp_bias": false,
 "model_type": "smollm3", "no_rope_layer_interval": 4, "num_attention_heads": 16, "num_hidden_layers": 36,
 "num_key_value_heads": 4, "pad_token_id": 128004, "pretraining_tp": 2, "rms_norm_eps": 1e-06, "rope_scaling": null,
 "rope_theta": 5000000.0, "sliding_window": null, "torch_dtype": "bfloat16", "use_cache": false,
 "use_sliding_window": false, "vocab_size": 128256})",
     3075098624},
    {"Qwen15Moe", R"({"architectures": ["Qwen2MoeForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
 "decoder_sparse_step": 1, "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 2048,
 "initializer_range": 0.02, "intermediate_size": 5632, "max_position_embeddings": 8192, "max_window_layers": 21,
 "model_type": "qwen2_moe", "moe_intermediate_size": 1408, "norm_topk_prob": false, "num_attention_heads": 16,
 "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 16,
 "output_router_logits": false, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001,
 "shared_expert_intermediate_size": 5632, "sliding_window": 32768, "tie_word_embeddings": false,
 "torch_dtype": "bfloat16", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})",
     14315784192},
    {"Olmoe",
     R"({"architectures": ["OlmoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "clip_qkv": null,
 "eos_token_id": 50279, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
 "intermediate_size": 1024, "max_position_embeddings": 4096, "model_type": "olmoe", "norm_topk_prob": false,
 "num_attention_heads": 16, "num_experts": 64, "num_experts_per_tok": 8, "num_hidden_layers": 16,
 "num_key_value_heads": 16, "output_router_logits": false, "pad_token_id": 1, "rms_norm_eps": 1e-05,
 "rope_scaling": null, "rope_theta": 10000.0, "router_aux_loss_coef": 0.01, "tie_word_embeddings": false,
 "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 50304})",
     6919161856},
    {"Olmo1b",
     R"({"architectures": ["OlmoForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "clip_qkv": null,
 "eos_token_id": 50279, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
 "intermediate_size": 8192, "max_position_embeddings": 2048, "model_type": "olmo", "num_attention_heads": 16,
 "num_hidden_layers": 16, "num_key_value_heads": 16, "pad_token_id": 1, "pretraining_tp": 1, "rope_scaling": null,
 "rope_theta": 10000.0, "tie_word_embeddings": true, "torch_dtype": "float32", "use_cache": true,
 "vocab_size": 50304})",
     1176764416},
    {"Olmo3", R"({"architectures": ["Olmo3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
 "bos_token_id": null, "eos_token_id": 100257, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
 "intermediate_size": 11008, "max_position_embeddings": 65536, "model_type": "olmo3", "num_attention_heads": 32,
 "num_hidden_layers": 32, "num_key_value_heads": 32, "pad_token_id": 100277, "rms_norm_eps": 1e-06,
 "rope_scaling": {"attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0,
 "original_max_position_embeddings": 8192, "rope_type": "yarn"}, "rope_theta": 500000, "sliding_window": 4096,
 "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": false, "vocab_size": 100278})",
     7298011136},
    {"Gemma2b",
     R"({"architectures": ["GemmaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 2,
 "eos_token_id": 1, "head_dim": 256, "hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh",
 "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 16384, "max_position_embeddings": 8192,
 "model_type": "gemma", "num_attention_heads": 8, "num_hidden_layers": 18, "num_key_value_heads": 1,
 "pad_token_id": 0, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000.0, "torch_dtype": "bfloat16",
 "use_cache": true, "vocab_size": 256000})",
     2506172416},
    {"CommandR",
     R"({"architectures": ["CohereForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 5,
 "eos_token_id": 255001, "hidden_act": "silu", "hidden_size": 8192, "initializer_range": 0.02,
 "intermediate_size": 22528, "layer_norm_eps": 1e-05, "logit_scale": 0.0625, "max_position_embeddings": 8192,
 "model_max_length": 131072, "model_type": "cohere", "num_attention_heads": 64, "num_hidden_layers": 40,
 "num_key_value_heads": 64, "pad_token_id": 0, "pretraining_tp": 1, "rope_theta": 8000000.0,
 "torch_dtype": "float16", "use_cache": true, "vocab_size": 256000})",
     34980831232},
    {"Glm4", R"({"architectures": ["Glm4ForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
 "eos_token_id": [151329, 151336, 151338], "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
 "initializer_range": 0.02, "intermediate_size": 13696, "max_position_embeddings": 32768, "model_type": "glm4",
 "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 2, "pad_token_id": 151329,
 "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
 "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 151552})",
     9400279040},
    {"Exaone4",
     R"({"architectures": ["Exaone4ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 361,
 "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 4096,
 "max_position_embeddings": 65536, "model_type": "exaone4", "num_attention_heads": 32, "num_hidden_layers": 30,
 "num_key_value_heads": 8, "pad_token_id": 0, "rms_norm_eps": 1e-05,
 "rope_scaling": {"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
 "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 1000000, "sliding_window": null,
 "sliding_window_pattern": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true,
 "vocab_size": 102400})",
     1279391488},
    {"DeepSeekCoder", R"({"architectures": ["LlamaForCausalLM"], "bos_token_id": 32013, "eos_token_id": 32014,
 "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5504,
 "max_position_embeddings": 16384, "model_type": "llama", "num_attention_heads": 16, "num_hidden_layers": 24,
 "num_key_value_heads": 16, "pretraining_tp": 1, "rms_norm_eps": 1e-06,
 "rope_scaling": {"factor": 4.0, "type": "linear"}, "rope_theta": 100000, "tie_word_embeddings": false,
 "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 32256})",
     1346471936},
    {"Granite3Moe", R"({"architectures": ["GraniteMoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.1,
 "attention_multiplier": 0.015625, "bos_token_id": 0, "embedding_multiplier": 12.0, "eos_token_id": 0,
 "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 512,
 "logits_scaling": 6.0, "max_position_embeddings": 4096, "model_type": "granitemoe", "num_attention_heads": 16,
 "num_experts_per_tok": 8, "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32,
 "output_router_logits": false, "pad_token_id": 0, "residual_multiplier": 0.22, "rms_norm_eps": 1e-06,
 "rope_scaling": null, "rope_theta": 10000, "router_aux_loss_coef": 0.0, "tie_word_embeddings": true,
 "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 49155})",
     1334628352},
};

std::uint64_t parameters_of(const model::Architecture& architecture) {
  std::uint64_t sum = 0;
  for (const model::FileTensor& tensor : model::file_tensors(architecture)) {
    std::uint64_t product = 1;
    for (const std::uint64_t extent : tensor.shape) product *= extent;
    sum += product;
  }
  return sum;
}

class WildConfigs : public testing::TestWithParam<WildConfig> {};

TEST_P(WildConfigs, AreUnderstoodAndHaveThePublishedSize) {
  const model::Architecture architecture = model::parse_architecture(GetParam().json, GetParam().name);
  EXPECT_EQ(parameters_of(architecture), GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(Published, WildConfigs, testing::ValuesIn(kConfigs),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace nibble::test
