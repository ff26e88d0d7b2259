"""Records of sweeps, and results of quantize(), as data frames."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Sequence

if TYPE_CHECKING:
    import pandas

# What a cell's row says of its measures: column -> where it stands in the record.
_MEASURES = {
    "perplexity": ("measures", "perplexity"),
    "perplexity_stderr": ("measures", "perplexity_stderr"),
    "nll": ("measures", "nll_nats_per_token"),
    "bits_per_byte": ("measures", "bits_per_byte"),
    "bits_per_weight": ("measures", "bits_per_weight"),
    "model_bits_per_weight": ("measures", "model_bits_per_weight"),
    "model_bytes": ("measures", "model_bytes"),
    "kl": ("measures", "divergence", "nats_per_token"),
    "kl_stderr": ("measures", "divergence", "stderr"),
    "kl_median": ("measures", "divergence", "median"),
    "top1_agreement": ("measures", "divergence", "top1_agreement"),
    "error": ("error", "message"),
}


def _value(record, path):
    for key in path:
        if not isinstance(record, dict) or record.get(key) is None:
            return None
        record = record[key]
    return record


def _number(text):
    """A setting as the number or truth value that it is, where it is one."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError):
            pass
    return text


def _row(record):
    row = {"id": record["id"]}
    for name, value in record.get("settings", {}).items():
        # A model may be called 1e5, a hash may have no letters: these are no numbers.
        row[name] = value if name in record["labels"] or name.endswith("_hash") else _number(value)
    row.update((column, _value(record, path)) for column, path in _MEASURES.items())
    for speed in record.get("speeds", []):
        for measure in ("first_token_seconds", "tokens_per_second"):
            row[f"{measure}_{speed['context']}"] = _value(speed, (measure, "median"))
    return row


def frame(source: dict[str, Any] | Sequence[dict[str, Any]] | str | os.PathLike[str]) -> pandas.DataFrame:
    """A pandas DataFrame of `source`: records (read_records(), run_sweep()) or a directory of them, a row for each cell
    with labels, settings and measures (speeds: medians, a column for each context); or the result of quantize(), a row for each tensor."""
    import pandas  # only who asks for frames needs it

    from ._nibble import read_records

    if isinstance(source, dict):
        return pandas.DataFrame(source["tensors"])
    records = source if isinstance(source, (list, tuple)) else read_records(source)
    return pandas.DataFrame([_row(record) for record in records])
