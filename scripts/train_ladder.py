#!/usr/bin/env python3
"""Trains a Llama from scratch and keeps checkpoints at several numbers of training tokens per parameter (a ladder).

Each checkpoint is a Hugging Face directory in float16, OUT/RATIO (tokens per parameter), with a ladder.json beside the
weights: tokens seen, losses, settings, and for every linear layer the largest mean square of an input channel over that
of the median channel (a trained model's outlier features; measured on 32 windows of the validation text).

    pip install torch numpy safetensors
    scripts/train_ladder.py --tokens train.u16 --validation validation.u16 --tokenizer DIR -o OUT   # tokens: scripts/evidence/ladder_tokens.py

Token files are little-endian uint16. The same seed draws the same windows and the same initial weights.
"""
import argparse
import contextlib
import json
import math
import pathlib
import shutil
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt")
EPSILON, THETA, CLIPPING, WEIGHT_DECAY = 1e-5, 10000.0, 1.0, 0.1


def fail(message):
    print(f"train_ladder.py: {message}", file=sys.stderr)
    sys.exit(2)


def joined(x, *layers):
    """Several linear layers of one input as one product."""
    y = F.linear(x, torch.cat([layer.weight for layer in layers]))
    return y.split([layer.out_features for layer in layers], dim=-1)


def rotated(x, cosines, sines):
    first, second = x.chunk(2, dim=-1)
    return (x * cosines + torch.cat((-second, first), dim=-1) * sines).type_as(x)


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.head_size = shape.width // shape.heads
        kv_width = shape.kv_heads * self.head_size
        self.q_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.k_proj = nn.Linear(shape.width, kv_width, bias=False)
        self.v_proj = nn.Linear(shape.width, kv_width, bias=False)
        self.o_proj = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x, rotation, observe):
        observe("q_proj, k_proj, v_proj", x)
        parts = joined(x, self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (part.unflatten(-1, (-1, self.head_size)).transpose(1, 2) for part in parts)
        q, k = rotated(q, *rotation), rotated(k, *rotation)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2)
        observe("o_proj", y)
        return self.o_proj(y)


class Mlp(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down_proj = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x, observe):
        observe("gate_proj, up_proj", x)
        gate, up = joined(x, self.gate_proj, self.up_proj)
        y = F.silu(gate) * up
        observe("down_proj", y)
        return self.down_proj(y)


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.width, eps=EPSILON)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.width, eps=EPSILON)
        self.mlp = Mlp(shape)
        self.dropout = shape.dropout

    def forward(self, x, rotation, observe):
        y = self.self_attn(self.input_layernorm(x), rotation, observe)
        x = x + F.dropout(y, self.dropout, self.training)
        y = self.mlp(self.post_attention_layernorm(x), observe)
        return x + F.dropout(y, self.dropout, self.training)


class Backbone(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, eps=EPSILON)


class Llama(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.model = Backbone(shape)
        self.lm_head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        head_size = shape.width // shape.heads
        frequencies = THETA ** (-torch.arange(0, head_size, 2, dtype=torch.float64) / head_size)
        angles = torch.outer(torch.arange(shape.context, dtype=torch.float64), frequencies).repeat(1, 2)
        self.register_buffer("cosines", angles.cos().float(), persistent=False)
        self.register_buffer("sines", angles.sin().float(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                into_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * shape.layers) if into_residual else 0.02)

    def forward(self, ids, targets, observe=lambda name, x: None):
        """The mean cross-entropy of targets in nats."""
        x = self.model.embed_tokens(ids)
        rotation = self.cosines[: ids.shape[1]], self.sines[: ids.shape[1]]
        for index, layer in enumerate(self.model.layers):
            x = layer(x, rotation, lambda name, y, index=index: observe(f"layers.{index}: {name}", y))
        x = self.model.norm(x)
        observe("lm_head", x)
        return F.cross_entropy(self.lm_head(x).flatten(0, 1).float(), targets.flatten())


def read_tokens(file, vocabulary, context):
    try:
        tokens = np.fromfile(file, dtype="<u2")
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    if len(tokens) < 4 * context + 1:
        fail(f"{file}: {len(tokens)} tokens, expected at least {4 * context + 1}: four windows of {context}")
    if tokens.max() >= vocabulary:
        fail(f"{file}: token {tokens.max()} is beyond the vocabulary of {vocabulary}")
    return torch.from_numpy(tokens.astype(np.int32))


def windows(tokens, starts, context):
    picked = tokens[starts[:, None] + torch.arange(context + 1, device=tokens.device)].long()
    return picked[:, :-1].contiguous(), picked[:, 1:].contiguous()


def batches(tokens, batch, context, generator):
    """Endless epochs of shuffled windows; each epoch begins at another offset, so windows hardly repeat."""
    pending = torch.empty(0, dtype=torch.int64)
    while True:
        while len(pending) < batch:
            offset = int(torch.randint(context, (1,), generator=generator))
            starts = torch.arange(offset, len(tokens) - context, context)
            pending = torch.cat((pending, starts[torch.randperm(len(starts), generator=generator)]))
        yield windows(tokens, pending[:batch].to(tokens.device), context)
        pending = pending[batch:]


@torch.no_grad()
def measure(model, tokens, context, observed_windows=32):
    """The loss on all whole windows in float32, and each linear layer's largest channel over the median one."""
    model.eval()
    starts = torch.arange(0, len(tokens) - context, context, device=tokens.device)
    squares, total = {}, 0.0

    def observe(name, x):
        squares[name] = squares.get(name, 0) + x.double().square().sum(dim=(0, 1))

    for index, part in enumerate(starts.split(8)):
        observing = {"observe": observe} if index * 8 < observed_windows else {}
        total += model(*windows(tokens, part, context), **observing).item() * len(part)
    model.train()
    ratios = {name: (sums.max() / sums.median()).item() for name, sums in squares.items()}
    return total / len(starts), ratios


def write_checkpoint(final, model, options, record):
    """Writes the model's directory beside its name, then gives it that name, so that none is there in part."""
    directory = final.with_name(final.name + ".partial")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name in TOKENIZER_FILES:
        if (options.tokenizer / name).exists():
            shutil.copyfile(options.tokenizer / name, directory / name)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "vocab_size": options.vocabulary, "hidden_size": options.width, "intermediate_size": options.hidden,
        "num_hidden_layers": options.layers, "num_attention_heads": options.heads,
        "num_key_value_heads": options.kv_heads, "max_position_embeddings": options.context,
        "rms_norm_eps": EPSILON, "rope_theta": THETA, "rope_scaling": None, "attention_bias": False,
        "mlp_bias": False, "bos_token_id": options.vocabulary - 1, "eos_token_id": options.vocabulary - 1,
        "torch_dtype": "float16", "tie_word_embeddings": False,
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2))
    weights = {name: tensor.to("cpu", torch.float16).contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "ladder.json").write_text(json.dumps(record, indent=2) + "\n")
    directory.rename(final)


def mark_name(ratio):
    return f"{ratio:.3g}"


def learning_rate(options, step, progress):
    warm = min(1.0, (step + 1) / options.warm_up)
    return options.learning_rate * warm * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def train(options, tokens, validation):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    model = Llama(options).to(device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    matrices = [parameter for parameter in model.parameters() if parameter.ndim == 2]
    gains = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": gains, "weight_decay": 0.0}],
        lr=options.learning_rate, betas=(0.9, 0.95), fused=device == "cuda")
    autocast = torch.autocast(device, dtype=torch.bfloat16) if device == "cuda" else contextlib.nullcontext()
    loss_of = torch.compile(model, dynamic=False) if device == "cuda" else model
    tokens, validation = tokens.to(device), validation.to(device)
    source = batches(tokens, options.batch, options.context, torch.Generator().manual_seed(options.seed))

    marks, budget = list(options.at), options.at[-1] * parameters
    settings = {name: getattr(options, name) for name in (
        "vocabulary", "layers", "width", "heads", "kv_heads", "hidden", "context", "batch", "learning_rate", "warm_up",
        "dropout", "seed")}
    print(f"{parameters} parameters, {len(tokens)} tokens, {budget / len(tokens):.1f} epochs, {device}", flush=True)
    seen, step, recent, clock_start, measuring = 0, 0, [], None, 0.0

    def keep(ratio):
        loss, ratios = measure(model, validation, options.context)
        largest = max(ratios, key=ratios.get)
        name = mark_name(ratio)
        if (options.output / name).exists():  # time ended just after a mark
            name += ".last"
        training_loss = torch.stack(recent[-100:]).mean().item()
        write_checkpoint(options.output / name, model, options, {
            "parameters": parameters, "tokens_seen": seen, "tokens_per_parameter": seen / parameters, "steps": step,
            "training_tokens": len(tokens), "epochs": seen / len(tokens), "training_loss": training_loss,
            "validation_loss": loss, "validation_tokens": len(validation), "largest_channel_ratio": ratios[largest],
            "largest_channel_layer": largest, "channel_ratios": ratios, "planned_tokens_per_parameter": options.at[-1],
            "settings": settings})
        print(f"{name}: training loss {training_loss:.4f}, validation loss {loss:.4f}, "
              f"largest channel ratio {ratios[largest]:.4g} ({largest})", flush=True)

    while marks:
        # The clock starts after two steps: compilation is not training.
        elapsed = time.monotonic() - clock_start - measuring if clock_start else 0.0
        # Where time runs out before tokens, the rate falls with the time, so the last checkpoint is a finished one.
        progress = max(seen / budget, elapsed / options.seconds if options.seconds else 0.0)
        if progress >= 1 and seen < marks[0] * parameters:
            keep(seen / parameters)
            return
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(options, step, progress)
        with autocast:
            loss = loss_of(*next(source))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIPPING)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seen, step = seen + options.batch * options.context, step + 1
        recent = recent[-99:] + [loss.detach()]
        if step % 10 == 0 or step == 2:
            loss.item()  # the host must not run ahead of the device: the clock is read on the host
            if step == 2:
                clock_start, seen_at_start = time.monotonic(), seen
            elif step % 200 == 0:
                spent = time.monotonic() - clock_start - measuring
                print(f"step {step}: {seen / parameters:.2f} tokens per parameter, loss {loss.item():.4f}, "
                      f"{(seen - seen_at_start) / spent:.0f} tokens/s", flush=True)
        while marks and seen >= marks[0] * parameters:
            pause = time.monotonic()
            keep(marks.pop(0))
            measuring += time.monotonic() - pause


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tokens", required=True, help="training tokens, .u16")
    add("--validation", required=True, help="validation tokens, .u16: never trained on")
    add("--tokenizer", required=True, type=pathlib.Path, help="directory whose tokenizer files the checkpoints get")
    add("-o", dest="output", required=True, type=pathlib.Path, help="directory to make; must not exist")
    add("--vocabulary", type=int, default=8192)
    add("--layers", type=int, default=8)
    add("--width", type=int, default=512)
    add("--heads", type=int, default=8)
    add("--kv-heads", type=int, default=2)
    add("--hidden", type=int, default=1280)
    add("--context", type=int, default=512)
    add("--at", default="0.6,3,10,24", help="training tokens per parameter to keep checkpoints at [%(default)s]")
    add("--batch", type=int, default=128, help="windows per step [%(default)s]")
    add("--learning-rate", type=float, default=1.5e-3, help="[%(default)s], falling to a tenth by a cosine")
    add("--warm-up", type=int, default=100, help="steps [%(default)s]")
    add("--dropout", type=float, default=0.1, help="on what layers add to the residual stream [%(default)s]")
    add("--seed", type=int, default=1)
    add("--seconds", type=float, default=0, help="end soon after this time of training, compilation apart; 0: no limit")
    options = parser.parse_args()
    try:
        options.at = sorted(float(mark) for mark in options.at.split(","))
    except ValueError:
        fail(f"--at {options.at}: expected numbers separated by commas")
    sizes = ("vocabulary", "layers", "width", "heads", "kv_heads", "hidden", "context", "batch", "warm_up")
    for name in sizes:
        if getattr(options, name) < 1:
            fail(f"--{name.replace('_', '-')} {getattr(options, name)}: expected at least 1")
    if not all(0 < mark < math.inf for mark in options.at) or options.seconds < 0 or not 0 <= options.dropout < 1:
        fail("--at expects positive numbers, --seconds none below 0, --dropout one in [0, 1)")
    if len({mark_name(mark) for mark in options.at}) < len(options.at):
        fail(f"--at {','.join(map(mark_name, options.at))}: two marks of one name")
    if not 0 < options.learning_rate < math.inf:
        fail(f"--learning-rate {options.learning_rate}: expected a positive number")
    if options.width % (2 * options.heads) or options.heads % options.kv_heads:
        fail(f"{options.heads} heads and {options.kv_heads} key-value heads do not divide a width of {options.width}")
    if options.output.exists():
        fail(f"{options.output}: exists already")
    if not (options.tokenizer / "tokenizer.json").exists():
        fail(f"{options.tokenizer}: no tokenizer.json there")
    train(options, read_tokens(options.tokens, options.vocabulary, options.context),
          read_tokens(options.validation, options.vocabulary, options.context))


if __name__ == "__main__":
    main()
