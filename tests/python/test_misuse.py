"""What must be refused with a message, and never read or written where nothing is."""
import copy
import json
import pickle
import shutil
import warnings

import nibble
import numpy as np
import pytest

RANDOM = np.random.default_rng(12)
W = RANDOM.standard_normal((8, 64)).astype(np.float32)
ROOT = RANDOM.standard_normal((64, 64))
H = (ROOT @ ROOT.T + 8 * np.eye(64)).astype(np.float32)
PALETTE = np.sort(RANDOM.standard_normal(16)).astype(np.float32)
CODES = np.zeros(W.shape, np.uint8)
NAN = np.float32("nan")


def factor():
    return nibble.factor_hessian(H, act_order=False)


@pytest.mark.parametrize("call, message", [
    (lambda: nibble.gptq(W, factor(), nibble.block_grid(W[:2], static_groups=False)), r"made for weights \(2, 64\)"),
    (lambda: nibble.gptq(np.tile(W, (4, 1)), factor(), nibble.block_grid(W)), r"w is \(32, 64\)"),
    (lambda: nibble.gptq(np.tile(W, (1, 4)), factor(), nibble.palette_grid(PALETTE)), "of 64 inputs, but w has 256"),
    (lambda: nibble.gptq(W, factor(), nibble.palette_grid(np.tile(PALETTE, (3, 1)), group_rows=2)), "8 rows need 4"),
    (lambda: nibble.gptq(W, factor(), nibble.palette_grid(PALETTE, scales=np.ones(3, np.float32))), "3 scales for 8"),
    (lambda: nibble.gptq(W[:0], factor(), nibble.palette_grid(PALETTE)), "rows and columns"),
    (lambda: nibble.coordinate_descent(W, H, nibble.block_grid(W[:2]), CODES.copy()), r"\(2, 64\)"),
    (lambda: nibble.coordinate_descent(W, H, nibble.palette_grid(PALETTE), CODES + np.uint8(200)), "200 at .* not below 16"),
    (lambda: nibble.coordinate_descent(W * NAN, H, nibble.palette_grid(PALETTE), CODES.copy()), "w: expected finite"),
    (lambda: nibble.coordinate_descent(W, H, nibble.palette_grid(PALETTE), CODES[:4].copy()), r"codes: \(4, 64\)"),
    (lambda: nibble.palette_grid(PALETTE, scales=np.full(8, NAN)), "scales: expected finite"),
    (lambda: nibble.PaletteWeight(PALETTE[None], CODES + np.uint8(16)), "16 at .* not below 16"),
    (lambda: nibble.PaletteWeight(PALETTE[None], CODES).update_scales(W, H * NAN), "hessian: expected finite"),
    (lambda: nibble.PaletteWeight(PALETTE[None], CODES).update_palette(W * NAN, H), "w: expected finite"),
    (lambda: nibble.quantize_tensor(W[:0], nibble.Recipe()), "rows and columns"),
    (lambda: nibble.quantize_tensor(W[:, :0], nibble.Recipe()), "rows and columns"),
    (lambda: nibble.quantize_tensor(W, nibble.Recipe("whole-tensor"), fisher=np.abs(W), mean_input=np.full(64, NAN)),
     "mean_input: expected finite"),
    (lambda: nibble.assign(W * NAN, PALETTE), "w: expected finite values, got nan at \\(0, 0\\)"),
    (lambda: nibble.assign(W, PALETTE, group_rows=2**64 - 1).shape, None),
    (lambda: nibble.palette_cost(W * NAN, PALETTE), "x: expected finite"),
    (lambda: nibble.search_blocks(W, hessian=H * NAN), "hessian: expected finite"),
    (lambda: nibble.divergence(W * NAN, W), "reference: expected finite"),
    (lambda: nibble.fit_palette(W, np.abs(W).T), "another shape"),
    (lambda: nibble.palette_cost(W, PALETTE, np.abs(W).T), "palette_cost: weights have another shape than x"),
    (lambda: nibble.palette_cost(W, PALETTE, np.abs(W[:4])), "another shape"),
    (lambda: nibble.palette_cost(W, PALETTE, np.abs(W[:0])), "another shape"),
    (lambda: nibble.palette_cost(PALETTE, PALETTE, PALETTE), "weight 0 is -.*; weights must be finite and not negative"),
    (lambda: nibble.palette_cost(PALETTE, PALETTE, PALETTE * NAN), "weight 0 is nan; weights must be"),
    (lambda: nibble.pack_codes(CODES, 2**32 - 1), "expected 1 to 8"),
])
def test_is_refused(call, message):
    if message is None:
        assert call() is not None
        return
    with pytest.raises(nibble.InvalidArgument, match=message):
        call()


def test_recipes_are_values():
    recipe, same, other = nibble.Recipe("gptq", bits=3), nibble.Recipe("gptq", bits=3), nibble.Recipe()
    assert recipe == same and hash(recipe) == hash(same) and recipe != other
    assert recipe != None and recipe not in [1, "gptq"]  # noqa: E711
    assert pickle.loads(pickle.dumps(recipe)) == recipe and copy.deepcopy(recipe) == recipe


def test_a_model_called_from_its_own_callback_says_so(demo):
    model = nibble.Model(demo / "gpt2-demo")
    with pytest.raises(nibble.InvalidArgument, match="called back"):
        model.generate([1, 2], 3, on_token=lambda _: model.logits([1, 2]))
    assert model.logits([1, 2]).shape == (2, model.vocabulary)  # and it goes on
    other = nibble.Model(demo / "gpt2-demo")
    seen = []
    model.generate([1, 2], 3, on_token=lambda _: seen.append(other.logits([1]).shape) and None)
    assert len(seen) == 3


def test_more_rows_than_tokens(demo):
    sequence = nibble.Model(demo / "gpt2-demo").sequence()
    with pytest.raises(nibble.InvalidArgument, match="last 1099511627776 of 1 tokens"):
        sequence.extend([1], 2**40)


def test_rows_are_joined_of_files_alone(demo):
    with pytest.raises(nibble.InvalidArgument, match="hf_join"):
        nibble.perplexity(nibble.Model(demo / "gpt2-demo"), text="A door opened.", hf_join=True)


def test_a_calibration_is_a_mapping(demo, tmp_path):
    calibration = nibble.calibrate(demo / "gpt2-demo", tmp_path / "c.h5", text=demo / "calibration.txt", samples=2, length=32)
    assert list(calibration) == calibration.layers and len(calibration) == len(calibration.layers)
    with pytest.raises(KeyError, match="no layer 'nope'"):
        calibration["nope"]


def test_failed_cells_are_warned_of(demo, tmp_path):
    """A weight of one of two models has a NaN, and cannot be coded."""
    shutil.copytree(demo / "gpt2-demo", tmp_path / "broken")
    data = bytearray((tmp_path / "broken" / "model.safetensors").read_bytes())
    size = int.from_bytes(data[:8], "little")
    entry = next(value for name, value in json.loads(data[8:8 + size]).items() if name.endswith("c_fc.weight"))
    begin = 8 + size + entry["data_offsets"][0]
    data[begin:begin + 4] = b"\xff" * 4  # a NaN in every type of floats
    (tmp_path / "broken" / "model.safetensors").write_bytes(data)
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(f"""
models: [{demo / "gpt2-demo"}, {tmp_path / "broken"}]
evaluations: [{{name: eval, text: {demo / "eval.txt"}, max_tokens: 128, protocol: blocks, context: 64}}]
list: [{{bits: 3}}]
""")
    sentence = "1 of 2 cells failed and are recorded so; the first: .*nan.*retry_failed=True does them again"
    with pytest.warns(UserWarning, match=sentence) as told:
        records = nibble.run_sweep(sweep, tmp_path / "results")
    assert len(told) == 1 and sorted(record["status"] for record in records) == ["failed", "ok"]
    assert nibble.frame(records)["error"].notna().sum() == 1


def test_what_is_told_of_quantizing_is_told_of_a_sweep_too(demo, tmp_path):
    """A text that repeats itself teaches drift the noise of its own windows."""
    (tmp_path / "again.txt").write_text("Again and again the same few words. " * 200, encoding="utf-8")
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(f"""
models: [{demo / "gpt2-demo"}]
calibration: {{text: {tmp_path / "again.txt"}, samples: 4, length: 32}}
evaluations: [{{name: eval, text: {demo / "eval.txt"}, max_tokens: 128, protocol: blocks, context: 64}}]
list: [{{preset: gptq, bits: 3, sequential: true, drift_correction: 1}}]
""")
    for _ in range(2):  # the second time the record is there
        with pytest.warns(UserWarning, match="gpt2-demo, .*gptq.*: drift_correction: .*noise may pass for drift"):
            nibble.run_sweep(sweep, tmp_path / "results")


def with_stray_tensor(model, directory):
    """A copy of `model` with a tensor that its network has no use for."""
    shutil.copytree(model, directory)
    file = directory / "model.safetensors"
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, values = json.loads(data[8:8 + size]), data[8 + size:]
    header["h.0.stray.weight"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(values), len(values) + 4]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + values + bytes(4))
    return directory


def test_warnings_of_the_command_line_are_pythons(demo, tmp_path):
    stray = with_stray_tensor(demo / "gpt2-demo", tmp_path / "stray")
    with pytest.warns(UserWarning, match="asks for no tensor h.0.stray.weight: left out"):
        nibble.Model(stray)
    with pytest.warns(UserWarning, match="asks for no tensor h.0.stray.weight: left out"):
        nibble.quantize(stray, tmp_path / "q", nibble.Recipe(bits=4))
    beyond = shutil.copytree(demo / "gpt2-demo", tmp_path / "beyond") / "config.json"
    beyond.write_text(json.dumps({**json.loads(beyond.read_text()), "bos_token_id": 50256}))
    with pytest.warns(UserWarning, match="bos_token_id 50256 is beyond the vocabulary of 2048 tokens"):
        assert nibble.Model(beyond.parent).bos is None
    with pytest.warns(UserWarning, match="rules that apply to no tensor of '.*': 'c_fcc'"):
        nibble.quantize(demo / "gpt2-demo", tmp_path / "r", nibble.Recipe.parse("layers: [{match: c_fcc, bits: 3}]"))
    lines = [json.dumps({"text": text}) for text in (demo / "calibration.txt").read_text().split("\n\n")]
    (tmp_path / "text.jsonl").write_text("\n".join(lines + [json.dumps({"body": "elsewhere"})]))
    with pytest.warns(UserWarning, match="1 lines were skipped: the text field is missing"):
        nibble.calibrate(demo / "gpt2-demo", tmp_path / "c.h5", text=tmp_path / "text.jsonl", samples=2, length=32,
                         collect="activations")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nibble.Model(demo / "gpt2-demo")
        with pytest.raises(UserWarning, match="left out"):
            nibble.Model(stray)


def test_arguments_that_change_nothing_are_refused(demo, tmp_path):
    (tmp_path / "ids.u16").write_bytes(bytes(256))
    for more in ({"samples": 4}, {"length": 32}, {"seed": 1}, {"field": "body"}):
        with pytest.raises(nibble.InvalidArgument, match="which are not there"):
            nibble.quantize(demo / "gpt2-demo", tmp_path / "q", **more)
    with pytest.raises(nibble.InvalidArgument, match="not tokens="):
        nibble.calibrate(demo / "gpt2-demo", tmp_path / "c.h5", tokens=tmp_path / "ids.u16", length=16, field="body",
                         collect="activations")
    ids = {"tokens": tmp_path / "ids.u16", "length": 16, "seed": 5}
    with pytest.raises(nibble.InvalidArgument, match="seed= says which windows of text="):
        nibble.calibrate(demo / "gpt2-demo", tmp_path / "c.h5", collect="activations", **ids)
    with pytest.raises(nibble.InvalidArgument, match="seed= says which windows of text="):
        nibble.quantize(demo / "gpt2-demo", tmp_path / "q", **ids)


    twice = {"text": [demo / "calibration.txt", demo / ".." / demo.name / "calibration.txt"]}
    with pytest.raises(nibble.InvalidArgument, match="calibration.txt' is given twice"):
        nibble.calibrate(demo / "gpt2-demo", tmp_path / "c.h5", collect="activations", **twice)
    with pytest.raises(nibble.InvalidArgument, match="calibration.txt' is given twice"):
        nibble.quantize(demo / "gpt2-demo", tmp_path / "q", **twice)
    with pytest.raises(nibble.InvalidArgument, match="none of them"):
        nibble.calibrate(demo / "gpt2-demo", tmp_path / "c.h5", text=demo / "calibration.txt", field="body",
                         collect="activations")
    model = nibble.Model(demo / "llama-demo")
    with pytest.raises(nibble.InvalidArgument, match="text= is the text itself.*file="):
        nibble.perplexity(model, text=str(demo / "eval.txt"))
    for more in ({"top_k": 5}, {"top_p": 0.5}, {"seed": 5}):
        with pytest.raises(nibble.InvalidArgument, match="temperature of 0"):
            model.generate([1], 1, **more)
    for more in ({"chunk": 5}, {"context": 16}, {"cache": "window", "capacity": 9}):
        with pytest.raises(nibble.InvalidArgument, match="window"):
            model.generate([1], 1, **more)


def test_tokenizers_are_compared_by_what_they_say(demo, tmp_path):
    """Files in other words may mean the same text by the same ids, as a GGUF file's beside Hugging Face's."""
    text = "He opened the door and went out."
    model, original = nibble.Model(demo / "gpt2-demo"), nibble.Tokenizer(demo / "gpt2-demo")
    for name in ("same", "other"):
        shutil.copytree(demo / "gpt2-demo", tmp_path / name)
        file = tmp_path / name / "tokenizer.json"
        content = json.loads(file.read_text(encoding="utf-8"))
        vocab = content["model"]["vocab"]
        if name == "same":
            content["model"]["merges"].pop()
        else:
            vocab["\u0120the"], vocab["\u0120and"] = vocab["\u0120and"], vocab["\u0120the"]
        file.write_text(json.dumps(content), encoding="utf-8")
        assert nibble.Tokenizer(tmp_path / name).fingerprint() != original.fingerprint()
    assert nibble.compare(model, nibble.Model(tmp_path / "same"), text=text, context=8).kl == 0
    with pytest.raises(nibble.InvalidArgument, match="has another tokenizer"):
        nibble.compare(model, nibble.Model(tmp_path / "other"), tokens=original.encode(text), context=8)
