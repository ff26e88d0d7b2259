"""What an export is judged by. Each function gives a verdict: (holds, one line that says how close).

Errors are measured against the float32 reference: the quantized model as `nibble export --format dequantized --dtype float32`
writes it, run by transformers in float32 (reference.py)."""

import numpy as np


def compare_weights(have, want):
    """Equal in every bit of every value, under the same names. `have`, `want`: {name: array}."""
    missing = sorted(set(want) - set(have))
    if missing:
        return False, f"{len(missing)} of {len(want)} tensors missing: {', '.join(missing[:3])}"
    differing = differences(have, want)
    if not differing:
        return True, f"{sum(w.size for w in want.values())} values of {len(want)} tensors equal"
    worst = max(differing, key=lambda name: differing[name][1])
    count = sum(n for n, _ in differing.values())
    return False, f"{count} values of {len(differing)} tensors differ, most in {worst}: by {differing[worst][1]:.3g} of its largest value"


def differences(have, want):
    """{name: (values that differ, largest difference as a share of the tensor's largest value)} of the tensors that are not equal"""
    out = {}
    for name in sorted(set(have) & set(want)):
        h, w = have[name], want[name]
        if h.shape != w.shape:
            out[name] = (w.size, np.inf)
        elif not np.array_equal(h, w):
            share = np.abs(h.astype(np.float64) - w).max() / (np.abs(w).max() or 1)
            out[name] = (int((h != w).sum()), float(share) if np.isfinite(share) else np.inf)
    return out


def compare_logits(have, want, limit):
    """sqrt(mean (have - want)^2 / mean want^2) over (tokens, vocabulary)"""
    if have.shape != want.shape:
        return False, f"shape {have.shape} for {want.shape}"
    error = np.sqrt(((have.astype(np.float64) - want) ** 2).mean() / (want.astype(np.float64) ** 2).mean())
    return bool(error <= limit), f"relative RMSE {error:.2g} of at most {limit:g}"


def log_softmax(logits):
    x = logits.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def window_loss(logits, ids):
    """Mean -log p(next token) in nats of one window: logits (tokens, vocabulary), ids (tokens); the first token is not scored."""
    return float(-log_softmax(logits[:-1])[np.arange(len(ids) - 1), ids[1:]].mean())


def compare_perplexity(losses, reference_losses, limit):
    have, want = (float(np.exp(np.mean(each))) for each in (losses, reference_losses))
    return bool(abs(have / want - 1) <= limit), f"{have:.4f} for {want:.4f} over {len(losses)} windows, {have / want - 1:+.1e} of at most {limit:g}"


def compare_greedy(have, want, margins, tie, least=8):
    """The same tokens up to the first step where the reference's two best logits are closer than `tie`, where either is right. At
    least `least` tokens must come before that, or the comparison says nothing."""
    same = next((i for i, (h, w) in enumerate(zip(have, want)) if h != w), len(want))
    if same == len(want) and len(have) == len(want):
        return True, f"{same} tokens equal"
    if len(have) > same and margins[same] <= tie and same >= least:
        return True, f"{same} tokens equal, then a tie: {margins[same]:.2g} between the best two"
    return False, f"differs at token {same} of {len(want)}, where the best two are {margins[same]:.2g} apart (a tie: {tie:.2g})"


def compare_ids(have, want):
    if have == want:
        return True, f"{len(want)} ids equal"
    first = next((i for i, (h, w) in enumerate(zip(have, want)) if h != w), min(len(have), len(want)))
    return False, f"{len(have)} ids for {len(want)}, different at {first}: {have[first : first + 4]} for {want[first : first + 4]}"
