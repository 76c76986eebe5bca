#!/usr/bin/env python3
"""Writes tests/data/models, classifiers and translators: tiny random checkpoints and the logits of transformers.

    llama/        tied embeddings, plain RoPE, F32
    llama.gguf    the same weights in F32, F16 and Q8_0, with GGUF's order of rows in q and k
    llama3/       in BF16; Llama 3's scaled RoPE, a separate head, biases in all layers, and a massive activation in
                  channel 3 of the first token of texts
    mistral/, qwen2/, qwen3/, gpt2/, ...: the others of FAMILIES
                  in BF16, with the features of each family: windows, fused and transposed matrices, gates, latent attention,
                  experts, YaRN and LongRoPE, layers without rotation, norms after attention and MLP
    qwen2.gguf, qwen3.gguf, gpt2.gguf
                  the same weights; a GGUF of qwen2 has no field for its window

Each directory holds expected.safetensors: input_ids I64 [batch, tokens], logits F32 [batch, tokens, vocab]. Those of
translators also hold what `generate` writes: greedy I64 [batch, tokens], and with 3 beams and other settings, of which
SEARCH is, beams I64 [batch, 3, tokens] and scores F32 [batch, 3]; -1 follows the end of a text. What a fold or a reader
could get wrong is made large: norm gains spread over a decade, biases far from zero, key biases most of all.
Needs: pip install torch transformers gguf safetensors numpy.
"""

import argparse
import json
import pathlib

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = dict(vocab_size=67, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=64, bos_token_id=1, eos_token_id=1, pad_token_id=None)
MODELS = {
    "llama": dict(tie_word_embeddings=True, rms_norm_eps=1e-5),
    "llama3": dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=False, head_dim=16,
                   rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
                                        high_freq_factor=4.0, original_max_position_embeddings=32)),
}
PLAIN = dict(vocab_size=67, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
             max_position_embeddings=64)
LATENT = dict(moe_intermediate_size=8, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, n_group=3,
              topk_group=2, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, num_key_value_heads=2)
DELTA = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=10,
             linear_conv_kernel_dim=4)
# These sizes are sufficient for most families, and small because all files are committed.
SMALL = dict(SIZES, vocab_size=33, hidden_size=16, num_attention_heads=2, num_key_value_heads=1, intermediate_size=12)
SINGLE = dict(SMALL, num_hidden_layers=1)
NARROW = dict(SMALL, vocab_size=33, hidden_size=8)
ENCODER = dict(vocab_size=33, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
               max_position_embeddings=64)
# Class names in transformers, without the ending, and the configuration.
FAMILIES = {
    "mistral": ("Mistral", "ForCausalLM", dict(SMALL, sliding_window=5)),
    "qwen2": ("Qwen2", "ForCausalLM", dict(SIZES, tie_word_embeddings=True, use_sliding_window=True, sliding_window=6,
                                           max_window_layers=1)),
    "qwen3": ("Qwen3", "ForCausalLM", dict(SMALL, head_dim=12)),
    "gpt2": ("GPT2", "LMHeadModel", dict(vocab_size=67, n_embd=32, n_layer=2, n_head=4, n_positions=64, n_inner=48,
                                         bos_token_id=1, eos_token_id=1)),
    "gpt_neox": ("GPTNeoX", "ForCausalLM", dict(
        PLAIN, vocab_size=33, hidden_size=16, num_attention_heads=2, intermediate_size=12, rotary_pct=0.5, bos_token_id=1,
        eos_token_id=1)),
    "bert": ("Bert", "ForMaskedLM", PLAIN),
    "qwen3_next": ("Qwen3Next", "ForCausalLM", dict(
        SMALL, head_dim=16, attention_bias=True, mlp_only_layers=[0], layer_types=["linear_attention", "full_attention"],
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, shared_expert_intermediate_size=20, **DELTA)),
    "deepseek_v2": ("DeepseekV2", "ForCausalLM", dict(
        {**SMALL, **LATENT}, q_lora_rank=None, first_k_dense_replace=1, topk_method="group_limited_greedy",
        routed_scaling_factor=1.5, norm_topk_prob=False, rope_parameters=dict(
            rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16, mscale=0.7,
            mscale_all_dim=0.9, beta_fast=32, beta_slow=1))),
    "deepseek_v3": ("DeepseekV3", "ForCausalLM", dict(
        {**SMALL, **LATENT}, q_lora_rank=9, first_k_dense_replace=1, attention_bias=True)),
    "phi": ("Phi", "ForCausalLM", dict(SMALL, rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                                   partial_rotary_factor=0.5))),
    "qwen3_moe": ("Qwen3Moe", "ForCausalLM", dict(SINGLE, head_dim=12, moe_intermediate_size=16, num_experts=5,
                                                  num_experts_per_tok=2, norm_topk_prob=True)),
    "mixtral": ("Mixtral", "ForCausalLM", dict(SINGLE, num_local_experts=4, num_experts_per_tok=2)),
    "qwen3_5_text": ("Qwen3_5", "ForCausalLM", dict(SMALL, head_dim=16, layer_types=["linear_attention", "full_attention"],
                                                    **DELTA)),
    "granite": ("Granite", "ForCausalLM", dict(
        SINGLE, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, embedding_multiplier=3.0,
        logits_scaling=1.7, residual_multiplier=0.4, attention_multiplier=0.2)),
    "smollm3": ("SmolLM3", "ForCausalLM", dict(SMALL, no_rope_layers=[0, 1], use_sliding_window=True, sliding_window=5)),
    "starcoder2": ("Starcoder2", "ForCausalLM", dict(SINGLE, sliding_window=6)),
    "cohere": ("Cohere", "ForCausalLM", dict(SINGLE, logit_scale=0.3)),
    "cohere2": ("Cohere2", "ForCausalLM", dict(SMALL, logit_scale=0.3, attention_bias=True, sliding_window=5,
                                               layer_types=["sliding_attention", "full_attention"])),
    "glm": ("Glm", "ForCausalLM", dict(SINGLE, head_dim=12)),
    "glm4": ("Glm4", "ForCausalLM", dict(SINGLE, head_dim=12)),
    "ernie4_5": ("Ernie4_5", "ForCausalLM", dict(SINGLE, head_dim=12, use_bias=True)),
    "gemma": ("Gemma", "ForCausalLM", dict(SINGLE, head_dim=12)),
    "gemma3_text": ("Gemma3Text", "ForCausalLM", dict(
        SMALL, head_dim=12, query_pre_attn_scalar=12, final_logit_softcapping=3.0, sliding_window=5,
        layer_types=["sliding_attention", "full_attention"], rope_parameters=dict(
            sliding_attention=dict(rope_type="default", rope_theta=5000.0),
            full_attention=dict(rope_type="linear", factor=4.0, rope_theta=100000.0)))),
    "phi3": ("Phi3", "ForCausalLM", dict(
        SINGLE, sliding_window=6, original_max_position_embeddings=32, rope_parameters=dict(
            rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75, short_factor=[1.1, 1.7, 2.3],
            long_factor=[2.0, 3.0, 4.0]))),
    "stablelm": ("StableLm", "ForCausalLM", dict(
        SINGLE, use_qkv_bias=True, rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                       partial_rotary_factor=0.5))),
    "olmo2": ("Olmo2", "ForCausalLM", dict(SINGLE, num_attention_heads=4, num_key_value_heads=2, attention_bias=True)),
    "olmo3": ("Olmo3", "ForCausalLM", dict(
        SMALL, sliding_window=5, layer_types=["sliding_attention", "full_attention"], rope_parameters=dict(
            sliding_attention=dict(rope_type="default", rope_theta=10000.0),
            full_attention=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)))),
    "olmoe": ("Olmoe", "ForCausalLM", dict(SINGLE, num_experts=4, num_experts_per_tok=2)),
    "granitemoe": ("GraniteMoe", "ForCausalLM", dict(
        SINGLE, num_local_experts=4, num_experts_per_tok=2, embedding_multiplier=3.0, logits_scaling=1.7,
        residual_multiplier=0.4, attention_multiplier=0.2)),
    "ministral": ("Ministral", "ForCausalLM", dict(SMALL, head_dim=12, sliding_window=5,
                                                   layer_types=["sliding_attention", "full_attention"])),
    "qwen2_moe": ("Qwen2Moe", "ForCausalLM", dict(SINGLE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8,
                                                  shared_expert_intermediate_size=12)),
    "seed_oss": ("SeedOss", "ForCausalLM", dict(SINGLE, head_dim=12, attention_bias=True, attention_out_bias=True,
                                                mlp_bias=True)),
    "exaone4": ("Exaone4", "ForCausalLM", dict(SMALL, head_dim=12, sliding_window=5,
                                               layer_types=["sliding_attention", "full_attention"])),
    "glm4_moe": ("Glm4Moe", "ForCausalLM", dict(
        SMALL, head_dim=12, attention_bias=True, use_qk_norm=True, moe_intermediate_size=8, n_routed_experts=6,
        num_experts_per_tok=2, n_shared_experts=1, n_group=3, topk_group=2, first_k_dense_replace=1,
        routed_scaling_factor=1.5)),
    "lfm2": ("Lfm2", "ForCausalLM", dict(SMALL, layer_types=["conv", "full_attention"], block_multiple_of=4)),
    "nemotron": ("Nemotron", "ForCausalLM", dict(SINGLE, attention_bias=True, mlp_bias=True)),
    "arcee": ("Arcee", "ForCausalLM", SINGLE),
    "helium": ("Helium", "ForCausalLM", dict(SINGLE, num_key_value_heads=2, head_dim=8, attention_bias=True)),
    "gemma2": ("Gemma2", "ForCausalLM", dict(
        SMALL, head_dim=12, query_pre_attn_scalar=10, attn_logit_softcapping=1.5, final_logit_softcapping=3.0,
        sliding_window=5, attn_implementation="eager")),
    "gpt_oss": ("GptOss", "ForCausalLM", dict(
        {**SMALL, "intermediate_size": 8}, head_dim=8, num_local_experts=3, num_experts_per_tok=2, sliding_window=5,
        swiglu_limit=0.5, attn_implementation="eager")),
    "gemma4_text": ("Gemma4Text", "ForCausalLM", dict(
        NARROW, num_hidden_layers=4, num_key_value_heads=2, head_dim=6, global_head_dim=8, num_global_key_value_heads=1,
        attention_k_eq_v=True, layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=5,
        hidden_size_per_layer_input=6, vocab_size_per_layer_input=33, num_kv_shared_layers=2, use_double_wide_mlp=True)),
    "granitemoehybrid": ("GraniteMoeHybrid", "ForCausalLM", dict(
        NARROW, layer_types=["linear_attention", "full_attention"], tie_word_embeddings=True, intermediate_size=4,
        shared_intermediate_size=5, num_local_experts=3, num_experts_per_tok=2, mamba_expand=2, mamba_n_heads=4,
        mamba_n_groups=2, mamba_d_state=3, mamba_proj_bias=True, time_step_limit=[0.2, 1.5], embedding_multiplier=3.0,
        logits_scaling=0.7, residual_multiplier=0.4, attention_multiplier=0.2)),
    "falcon_h1": ("FalconH1", "ForCausalLM", dict(
        NARROW, num_hidden_layers=1, attention_bias=True, mlp_bias=True, projectors_bias=True, mamba_proj_bias=True,
        mamba_d_ssm=12, mamba_n_heads=6, mamba_n_groups=2, mamba_d_state=3, mamba_d_conv=3, mamba_conv_bias=False,
        mamba_rms_norm=True, embedding_multiplier=3.0, lm_head_multiplier=0.7, mlp_multipliers=[0.6, 1.7],
        key_multiplier=0.5, attention_in_multiplier=1.3, attention_out_multiplier=0.8, ssm_in_multiplier=1.2,
        ssm_out_multiplier=0.9, ssm_multipliers=[0.7, 1.1, 0.8, 1.4, 0.6])),
    "nemotron_h": ("NemotronH", "ForCausalLM", dict(
        vocab_size=33, hidden_size=8, num_attention_heads=2, num_key_value_heads=1, head_dim=6, intermediate_size=10,
        max_position_embeddings=64, bos_token_id=1, eos_token_id=1, pad_token_id=None, mamba_num_heads=4,
        mamba_head_dim=3, n_groups=2, ssm_state_size=5, use_bias=True, n_routed_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=4, moe_shared_expert_intermediate_size=3, n_group=2, routed_scaling_factor=1.5,
        layers_block_type=["linear_attention", "mlp", "full_attention", "moe"])),
    "glm4_moe_lite": ("Glm4MoeLite", "ForCausalLM", dict({**SMALL, **LATENT}, q_lora_rank=9,
                                                         mlp_layer_types=["sparse", "dense"])),
    "hunyuan_v1_dense": ("HunYuanDenseV1", "ForCausalLM", dict(
        SINGLE, head_dim=8, attention_bias=True, rope_parameters=dict(
            rope_type="dynamic", rope_theta=10000.0, factor=1.0, alpha=50.0))),
    "ministral3": ("Ministral3", "ForCausalLM", dict(
        SINGLE, head_dim=8, rope_parameters=dict(
            rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=4, mscale=1.0,
            mscale_all_dim=1.0, beta_fast=32.0, beta_slow=1.0, llama_4_scaling_beta=0.5))),
    "olmo": ("Olmo", "ForCausalLM", dict(SINGLE, attention_bias=True)),
    "command_r_plus": ("Cohere", "ForCausalLM", dict(SINGLE, num_attention_heads=4, num_key_value_heads=2,
                                                     logit_scale=0.3, use_qk_norm=True)),
    "afmoe": ("Afmoe", "ForCausalLM", dict(
        SINGLE, head_dim=8, num_dense_layers=0, num_experts=4, num_experts_per_tok=2, num_shared_experts=1,
        moe_intermediate_size=8, route_scale=1.5, mup_enabled=True, sliding_window=5,
        layer_types=["sliding_attention"])),
    "gemma4_mixture": ("Gemma4Text", "ForCausalLM", dict(
        NARROW, num_hidden_layers=1, head_dim=8, global_head_dim=16, num_key_value_heads=2,
        num_global_key_value_heads=1, attention_k_eq_v=True, layer_types=["full_attention"],
        hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=8)),
    "llama4_text": ("Llama4Text", "ForCausalLM", dict(
        NARROW, head_dim=8, intermediate_size=4, intermediate_size_mlp=10, num_local_experts=4, moe_layers=[0],
        no_rope_layers=[1, 0], floor_scale=3, attn_scale=0.5, attention_chunk_size=64)),
    "modernbert": ("ModernBert", "ForMaskedLM", dict(
        vocab_size=33, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=12,
        max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=1, cls_token_id=1, sep_token_id=1,
        local_attention=7, layer_types=["full_attention", "sliding_attention", "full_attention"], norm_bias=True,
        attention_bias=True, mlp_bias=True, classifier_bias=True)),
    "embedding_gemma": ("Gemma3Text", "ForCausalLM", dict(
        SMALL, head_dim=12, query_pre_attn_scalar=12, use_bidirectional_attention=True, sliding_window=7,
        layer_types=["sliding_attention", "full_attention"])),
    "lfm3": ("Lfm3", "ForCausalLM", dict(
        SMALL, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=12, sliding_window=5,
        layer_types=["conv", "sliding_attention", "full_attention"], attention_bias=True, conv_bias=True,
        rope_parameters=dict(
            sliding_attention=dict(rope_type="default", rope_theta=300.0),
            full_attention=dict(rope_type="proportional", rope_theta=5000.0, partial_rotary_factor=0.5)))),
    "mimo": ("Qwen2", "ForCausalLM", dict(SIZES, use_sliding_window=False)),
    "roberta": ("Roberta", "ForMaskedLM", dict(ENCODER, type_vocab_size=1, pad_token_id=0)),
    "mpnet": ("MPNet", "ForMaskedLM", ENCODER),
    "distilbert": ("DistilBert", "ForMaskedLM", dict(
        vocab_size=33, dim=16, n_layers=2, n_heads=2, hidden_dim=12, max_position_embeddings=64, pad_token_id=0)),
    "nomic_bert": ("NomicBert", "ForMaskedLM", dict(
        ENCODER, hidden_size=8, num_hidden_layers=1, pad_token_id=0)),
}
# Classifiers: names of classes with their endings, and the configuration.
CLASSIFIERS = {
    "bert_texts": ("Bert", "ForSequenceClassification", dict(ENCODER, num_hidden_layers=1, num_labels=3)),
    "roberta_tokens": ("Roberta", "ForTokenClassification", dict(
        ENCODER, num_hidden_layers=1, num_labels=4, type_vocab_size=1, pad_token_id=0)),
    "modernbert_texts": ("ModernBert", "ForSequenceClassification", dict(
        ENCODER, num_hidden_layers=1, num_labels=1, pad_token_id=0, classifier_pooling="mean")),
    "eurobert_texts": ("EuroBert", "ForSequenceClassification", dict(
        ENCODER, num_hidden_layers=1, num_labels=2, num_key_value_heads=1, pad_token_id=0)),
    "qwen2_texts": ("Qwen2", "ForSequenceClassification", dict(
        ENCODER, num_hidden_layers=1, num_labels=2, num_key_value_heads=1, pad_token_id=0)),
    "deberta_tokens": ("DebertaV2", "ForTokenClassification", dict(
        ENCODER, num_hidden_layers=2, num_labels=3, relative_attention=True, position_buckets=4,
        max_relative_positions=10, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p",
        position_biased_input=False)),
}
MODEL_TYPES = {"mimo": ("mimo", "MiMoForCausalLM")}  # of families that transformers does not have, and that are like another one
CONFIGURATIONS = {"qwen3_5_text": "Qwen3_5TextConfig"}  # where the class is not that of the whole model
WHOLE_EXPERTS = ("mixtral",)  # all experts of a layer in one tensor, as newer checkpoints have them
FIRST_TOKEN, MASSIVE_CHANNEL = 1, 3
PADS_WITH_FIRST = ("mpnet",)  # families in which that token pads, and has no position
# The classes of transformers, and the configurations.
T5 = dict(vocab_size=33, d_model=16, d_kv=6, d_ff=20, num_layers=2, num_decoder_layers=2, num_heads=2, pad_token_id=0,
          eos_token_id=1, decoder_start_token_id=0, relative_attention_num_buckets=8, relative_attention_max_distance=9)
BART = dict(vocab_size=33, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=12, max_position_embeddings=32, pad_token_id=1,
            bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)
TRANSLATORS = {
    "t5": ("T5ForConditionalGeneration", T5),
    "mt5": ("MT5ForConditionalGeneration", dict(T5, num_layers=1, num_decoder_layers=1)),
    "bart": ("BartForConditionalGeneration", BART),
    "mbart": ("MBartForConditionalGeneration", dict(BART, encoder_layers=1, decoder_layers=1, scale_embedding=True,
                                                    activation_function="relu")),
    "pegasus": ("PegasusForConditionalGeneration", dict(BART, encoder_layers=1, decoder_layers=1, pad_token_id=0,
                                                        eos_token_id=1, decoder_start_token_id=0)),
    "marian": ("MarianMTModel", dict(BART, pad_token_id=32, eos_token_id=0, decoder_start_token_id=32,
                                     scale_embedding=True, activation_function="swish", encoder_attention_heads=4)),
    "m2m_100": ("M2M100ForConditionalGeneration", dict(BART, encoder_layers=1, decoder_layers=1)),
}
SEARCH = dict(num_beams=3, length_penalty=0.7, no_repeat_ngram_size=2, repetition_penalty=1.2, min_new_tokens=3,
              forced_bos_token_id=5)

BATCH, TOKENS = 2, 14
GGUF_FAMILIES = ("qwen2", "qwen3", "gpt2", "qwen3_moe", "gemma3_text")
Q8_0, F16, BF16, F32 = (gguf.GGMLQuantizationType[name] for name in ("Q8_0", "F16", "BF16", "F32"))


def is_q8(name: str) -> bool:
    return "gate_proj" in name or "up_proj" in name


def is_f16(name: str) -> bool:
    return "self_attn" in name


@torch.no_grad()
def fill_family(model: torch.nn.Module, generator: torch.Generator) -> None:
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if any(part in name for part in ("inv_freq", "position_ids", "token_type_ids", "mup_vector")):
            continue
        if "embed_scale" in name:  # transformers rounds it to the type of the weights, which is that of the file
            tensor.copy_(tensor.bfloat16().float())
            continue
        noise = torch.randn(tensor.shape, generator=generator)
        if name.endswith("bias"):
            value = 0.3 * noise
            if any(part in name for part in ("k_proj", "key.", "attn.k.", "k_lin")):
                value[::11] *= 20
        elif name.endswith("A_log"):
            value = 0.5 * noise - 2  # memories that last for some tokens
        elif tensor.ndim == 1:
            value = torch.exp(0.6 * noise) - (1 if tensor.abs().max() == 0 else 0)  # some families store gain - 1
        elif any(part in name for part in ("embed", "wte", "wpe")):
            value = 0.2 * noise
        else:
            value = noise * 0.8 / tensor.shape[-1] ** 0.5
        tensor.copy_(value.bfloat16().float())
    model.get_input_embeddings().weight[FIRST_TOKEN, MASSIVE_CHANNEL] = 4.0


@torch.no_grad()
def write_family(name: str, output: pathlib.Path, seed: int) -> None:
    prefix, ending, settings = FAMILIES[name]
    generator = torch.Generator().manual_seed(seed)
    config = getattr(transformers, CONFIGURATIONS.get(name, prefix + "Config"))(**settings)
    model = getattr(transformers, prefix.removesuffix("Text") + ending)(config).float().eval()
    fill_family(model, generator)
    ids = torch.randint(2, settings["vocab_size"], (BATCH, TOKENS), generator=generator)
    ids[:, 0] = FIRST_TOKEN + (name in PADS_WITH_FIRST)
    logits = model(ids).logits
    path = output / name
    if name in GGUF_FAMILIES:
        write_gguf(model, output / f"{name}.gguf", lambda name, tensor: BF16 if tensor.ndim >= 2 else F32)
    model.to(torch.bfloat16).save_pretrained(path, save_original_format=name not in WHOLE_EXPERTS)
    (path / "generation_config.json").unlink(missing_ok=True)
    if name in MODEL_TYPES:
        written = json.loads((path / "config.json").read_text())
        written["model_type"], architecture = MODEL_TYPES[name]
        written["architectures"] = [architecture]
        (path / "config.json").write_text(json.dumps(written, indent=2) + "\n")
    save_file({"input_ids": ids, "logits": logits.contiguous()}, path / "expected.safetensors")
    for file in path.iterdir():
        file.chmod(0o644)
    print(f"{name}: logits of spread {logits.std():.3f}, largest {logits.abs().max():.2f}")


@torch.no_grad()
def write_classifier(name: str, output: pathlib.Path, seed: int) -> None:
    """Writes a classifier and its scores of a padded batch; texts are pairs if the model knows token types."""
    prefix, ending, settings = CLASSIFIERS[name]
    generator = torch.Generator().manual_seed(seed)
    config = getattr(transformers, prefix + "Config")(**settings)
    model = getattr(transformers, prefix + ending)(config).float().eval()
    fill_family(model, generator)
    ids = torch.randint(2, settings["vocab_size"], (BATCH, TOKENS), generator=generator)
    mask = torch.ones_like(ids)
    mask[0, TOKENS - 5:] = 0
    ids[mask == 0] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if prefix == "Bert":
        types = torch.zeros_like(ids)
        types[:, 6:] = 1
        inputs["token_type_ids"] = types * mask
    logits = model(**inputs).logits
    path = output / name
    model.to(torch.bfloat16).save_pretrained(path)
    save_file({**inputs, "logits": logits.contiguous()}, path / "expected.safetensors")
    for file in path.iterdir():
        file.chmod(0o644)
    print(f"{name}: scores of spread {logits.std():.3f}")


@torch.no_grad()
def fill(model: LlamaForCausalLM, generator: torch.Generator) -> None:
    tied = model.config.tie_word_embeddings
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("bias"):
            value = 0.3 * noise
            if "k_proj" in name:
                value[::11] *= 20
        elif parameter.ndim == 1:
            value = torch.exp(0.6 * noise)
        elif "embed" in name:
            value = 0.2 * noise
        else:
            value = noise * 0.8 / parameter.shape[1] ** 0.5
        # Values are rounded to those that the files' types hold exactly, so that the logits are those of the stored
        # values.
        if is_q8(name) and parameter.ndim == 2:
            blocks = gguf.quants.quantize(value.numpy(), gguf.GGMLQuantizationType.Q8_0)
            value = torch.from_numpy(gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.Q8_0))
        elif is_f16(name):
            value = value.half().float()
        parameter.copy_(value if tied else value.bfloat16().float())
    # With a tied head, a large value would also change the logits.
    model.get_input_embeddings().weight[FIRST_TOKEN, MASSIVE_CHANNEL] = 4.0 if tied else 400.0


@torch.no_grad()
def write_translator(name: str, output: pathlib.Path, seed: int) -> None:
    class_name, settings = TRANSLATORS[name]
    torch.manual_seed(seed)
    model = getattr(transformers, class_name)(
        getattr(transformers, class_name.replace("ForConditionalGeneration", "Config").replace("MTModel", "Config"))(
            **settings)).float().eval()
    generator = torch.Generator().manual_seed(seed)
    buffers = [(key, value) for key, value in model.named_buffers() if key == "final_logits_bias"]
    for key, parameter in [*model.named_parameters(), *buffers]:
        if "embed_positions" in key and name in ("marian", "pegasus"):
            parameter.copy_(parameter.bfloat16().float() if name == "pegasus" else parameter)  # only that stores them
            continue
        noise = torch.randn(parameter.shape, generator=generator)
        if key == "final_logits_bias":
            value = 0.5 * noise
            value[0, model.config.eos_token_id] += 2  # so that texts end
        elif key.endswith("bias"):
            value = 0.3 * noise
            if "k_proj" in key:
                value[::11] *= 20
        elif parameter.ndim == 1:
            value = torch.exp(0.4 * noise)
        elif "relative_attention_bias" in key or "shared" in key or "embed" in key:
            value = 0.5 * noise
        else:
            value = noise / parameter.shape[1] ** 0.5
        parameter.copy_(value.bfloat16().float())
    end = model.config.eos_token_id
    ids = torch.randint(3, 30, (BATCH, TOKENS), generator=generator)
    ids[:, -1] = end
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    ids[1, 6] = end
    ids[1, 7:] = model.config.pad_token_id
    texts = torch.randint(3, 30, (BATCH, 10), generator=generator)
    texts[:, 0] = model.config.decoder_start_token_id
    logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=texts).logits

    def generated(**settings):
        result = model.generate(input_ids=ids, attention_mask=mask, do_sample=False, return_dict_in_generate=True,
                                output_scores=True, max_new_tokens=12,
                                bad_words_ids=[[model.config.pad_token_id]], **settings)
        written = result.sequences[:, 1:].clone()
        for text in written:
            ends = (text == end).nonzero()
            if len(ends) > 0:
                text[ends[0, 0] + 1:] = -1
        return written, result

    greedy, _ = generated(num_beams=1)
    beams, search = generated(num_return_sequences=3, **SEARCH)
    path = output / name
    model.to(torch.bfloat16).save_pretrained(path)
    save_file({"input_ids": ids, "attention_mask": mask, "decoder_input_ids": texts, "logits": logits.contiguous(),
               "greedy": greedy, "beams": beams.reshape(BATCH, 3, -1).contiguous(),
               "scores": search.sequences_scores.reshape(BATCH, 3).contiguous()}, path / "expected.safetensors")
    for file in path.iterdir():
        file.chmod(0o644)
    lengths = [int((text >= 0).sum()) for text in beams.reshape(-1, beams.shape[-1])]
    print(f"{name}: logits of spread {logits.std():.3f}, texts of {lengths} tokens")


def interleave_rope(values: np.ndarray, heads: int) -> np.ndarray:
    pairs = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return pairs.swapaxes(1, 2).reshape(values.shape)


def split_experts(parameters):
    """Splits experts' gate and up projections, which are in one tensor."""
    for name, parameter in parameters:
        if name.endswith("experts.gate_up_proj"):
            for part, values in zip(("gate_proj", "up_proj"), parameter.chunk(2, dim=1)):
                yield name.replace("gate_up_proj", part), values.contiguous()
        else:
            yield name, parameter


def write_gguf(model: transformers.PreTrainedModel, path: pathlib.Path, tensor_type) -> None:
    """tensor_type(name, tensor) is how a tensor is stored; names are those of llama.cpp."""
    config = model.config
    family = config.model_type.replace("_moe", "moe").replace("_text", "")
    writer = gguf.GGUFWriter(path, family)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.n_inner if family == "gpt2" else config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if family == "gpt2":
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters.get("full_attention", config.rope_parameters)["rope_theta"])
    if family == "qwen3moe":
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if family == "gemma3":
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern(config.layer_types.index("full_attention") + 1)
        writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rope_parameters["full_attention"]["factor"])
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if family in ("qwen3", "qwen3moe", "gemma3"):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    architecture = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == family)
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    for name, parameter in split_experts(model.named_parameters()):
        values = parameter.detach().numpy()
        if family == "gemma3" and name.endswith("norm.weight"):
            values = values + 1  # llama.cpp's converter adds what the family leaves out
        if ".c_" in name and values.ndim == 2:
            values = np.ascontiguousarray(values.T)  # GPT-2 keeps [inputs, outputs]
        if family == "llama" and "q_proj" in name:
            values = interleave_rope(values, config.num_attention_heads)
        if family == "llama" and "k_proj" in name:
            values = interleave_rope(values, config.num_key_value_heads)
        kind = tensor_type(name, parameter)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")),
                          gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_model(name: str, output: pathlib.Path, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**{**SIZES, **MODELS[name]})).float().eval()
    fill(model, generator)
    ids = torch.randint(2, SIZES["vocab_size"], (BATCH, TOKENS), generator=generator)
    ids[:, 0] = FIRST_TOKEN
    with torch.no_grad():
        logits = model(ids).logits
    path = output / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(json.loads(model.config.to_json_string()), indent=2) + "\n")
    dtype = torch.float32 if model.config.tie_word_embeddings else torch.bfloat16
    tensors = {key: value.to(dtype).contiguous() for key, value in model.named_parameters()}
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    save_file({"input_ids": ids, "logits": logits.contiguous()}, path / "expected.safetensors")
    for file in path.iterdir():
        file.chmod(0o644)  # save_file makes files that only their owner can read
    if name == "llama":
        write_gguf(model, output / "llama.gguf", lambda name, _: Q8_0 if is_q8(name) else F16 if is_f16(name) else F32)
    print(f"{name}: logits of spread {logits.std():.3f}, largest {logits.abs().max():.2f}")


def main() -> None:
    default = pathlib.Path(__file__).resolve().parent.parent / "tests/data/models"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=default)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # how many there are decides the order of sums, and so the last digits
    for index, name in enumerate(MODELS):
        write_model(name, arguments.output, arguments.seed * len(MODELS) + index)
    for index, name in enumerate(FAMILIES):
        write_family(name, arguments.output, arguments.seed * len(FAMILIES) + index)
    for index, name in enumerate(TRANSLATORS):
        write_translator(name, arguments.output.parent / "translators", arguments.seed * len(TRANSLATORS) + index)
    for index, name in enumerate(CLASSIFIERS):
        write_classifier(name, arguments.output.parent / "classifiers", arguments.seed * len(CLASSIFIERS) + index)


if __name__ == "__main__":
    main()
