"""Records of a sweep as far as the scripts of scripts/evidence/ read them, and those scripts run on them."""

import contextlib
import io
import json
import math
import pathlib
import sys
import tempfile
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts" / "evidence"))
import check_tables  # noqa: E402
import evidence_table  # noqa: E402

SWEEP = """# A sweep of a test.
models:
  - {{path: models/m, name: m}}
evaluations:
  - {{name: validation, use: validation, text: a.txt}}
  - {{name: test, use: test, text: b.txt}}
list:
{rows}
"""


def record(recipe, divergences, losses=None, *, evaluation="test", bits=3.0, seconds=1.0, calibration=None, **environment):
    return {
        "status": "ok",
        "labels": {"model": "m", "evaluation": evaluation, "use": evaluation, "recipe": recipe},
        "measures": {"bits_per_weight": bits, "model_bits_per_weight": bits + 1, "window_nll": losses or [2.0] * len(divergences),
                     "divergence": {"window_nats": divergences}},
        "configuration": {"recipe": {}, "calibration": calibration or {}},
        "timings": {"quantize_seconds": seconds},
        "environment": {"commit": "0123456789ab", "processor": "a processor", "instruction_set": "avx2"} | environment,
    }


def failed(recipe):
    return {"status": "failed", "labels": {"model": "m", "evaluation": "test", "use": "test", "recipe": recipe}}


def table_of(records):
    """What evidence_table.py prints of these records, whose recipes stand in its sweep in their order."""
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        names = dict.fromkeys(r["labels"]["recipe"].partition(", seed ")[0] for r in records)
        sweep = root / "sweep.yaml"
        sweep.write_text(SWEEP.format(rows="\n".join(f'  - {{name: "{name}"}}' for name in names)), encoding="utf-8")
        (root / "sweep").mkdir()
        for index, one in enumerate(records):
            (root / "sweep" / f"{index}.json").write_text(json.dumps(one), encoding="utf-8")
        status, text = run(evidence_table, [str(root / "sweep"), str(sweep)])
        if status:
            raise SystemExit(status)
        return text


def run(script, arguments):
    """(status, what was printed) of a script's main()."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), unittest.mock.patch.object(sys, "argv", ["script", *arguments]):
        try:
            script.main()
            status = 0
        except SystemExit as end:
            status = end.code
    return status, out.getvalue()


def error_of_mean(values):
    mean = 0.0
    for value in values:
        mean += value / len(values)
    squares = 0.0
    for value in values:
        squares += (value - mean) * (value - mean)
    return mean, math.sqrt(squares / (len(values) - 1) / len(values))
