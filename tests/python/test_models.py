"""Checkpoints, calibrations, quantizing and running: against each other and against the files."""
import json
import shutil
import threading

import nibble
import numpy as np
import pytest


@pytest.fixture(scope="module")
def quantized(demo, tmp_path_factory):
    output = tmp_path_factory.mktemp("quantized") / "gpt2-3bit"
    report = nibble.quantize(demo / "gpt2-demo", output, nibble.Recipe(bits=3, granularity="channel"))
    return output, report


def test_checkpoint_shows_tensors_where_they_lie(demo):
    checkpoint = nibble.Checkpoint(demo / "gpt2-demo")
    config = json.loads((demo / "gpt2-demo" / "config.json").read_text())
    assert checkpoint.config == config and checkpoint.vocabulary == config["vocab_size"]
    raw = (demo / "gpt2-demo" / "model.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + size])
    for name in checkpoint.tensor_names:
        begin, end = header[name]["data_offsets"]
        tensor = checkpoint.tensor(name)
        assert tensor.tobytes() == raw[8 + size + begin:8 + size + end]
        assert list(tensor.shape) == header[name]["shape"] and not tensor.flags.writeable
        assert checkpoint.dtype(name) == header[name]["dtype"]
        assert tensor.__array_interface__["data"][0] == checkpoint.tensor(name).__array_interface__["data"][0]


def test_weights_have_their_own_rows(demo):
    checkpoint = nibble.Checkpoint(demo / "gpt2-demo")
    names = checkpoint.layers
    fused = next(name for name in checkpoint.tensor_names if name.endswith("c_attn.weight") and ".0." in name)
    stored = checkpoint.tensor(fused).astype(np.float32)  # (in, 3 · out)
    width = stored.shape[0]
    for part, name in enumerate(names[:3]):
        np.testing.assert_array_equal(checkpoint.weight(name), stored[:, part * width:(part + 1) * width].T)
        assert checkpoint.layer(name)["shape"] == (width, width)
    with pytest.raises(nibble.InvalidArgument, match="did you mean"):
        checkpoint.weight(names[0] + "x")
    with pytest.raises(nibble.InvalidArgument, match="stores no codes"):
        checkpoint.quantized(names[0])


def test_calibration_is_lazy_and_consistent(calibration, demo, tmp_path):
    layer = calibration[calibration.layers[0]]
    out, width = layer.shape
    assert layer.fisher.shape == (out, width) and np.all(layer.fisher >= 0)
    hessian = layer.hessian()
    np.testing.assert_array_equal(hessian, hessian.T)
    # Diagonal of XᵀX / N is E[x²]; sums are stored as float32.
    np.testing.assert_allclose(np.diag(hessian), layer.second_moment, rtol=1e-6)
    centred = hessian - np.outer(layer.mean_input, layer.mean_input)
    np.testing.assert_allclose(layer.hessian("centred"), centred, atol=1e-5 * np.abs(hessian).max())
    assert np.all(layer.magnitude >= np.abs(layer.mean_input) - 1e-12)
    assert layer.tokens == 4 * 64 and calibration.settings["windows"] == "4"
    assert calibration.layers[0] in calibration and "nothing" not in calibration
    plain = nibble.calibrate(demo / "gpt2-demo", tmp_path / "plain.h5", text=demo / "calibration.txt", samples=2, length=32,
                             collect="guided-hessian", guide="plain")
    assert plain.settings["guide"] == "plain"
    again = nibble.calibrate(demo / "gpt2-demo", calibration.path, text=demo / "calibration.txt", samples=4, length=64,
                             collect="activations,fisher,hessian,guided-hessian,output-hessian")  # complete: left as it is
    assert again.layers == calibration.layers and again.settings["guide"] == "whitened"
    with pytest.raises(nibble.InvalidArgument, match="--guide plain goes on"):
        nibble.calibrate(demo / "gpt2-demo", plain.path, text=demo / "calibration.txt", samples=2, length=32,
                         collect="guided-hessian")
    with pytest.raises(nibble.InvalidArgument, match="guided"):
        layer.hessian("guide")


def test_a_calibration_stands_for_its_file(calibration, demo, tmp_path):
    recipe = nibble.Recipe("whole-tensor", bits=3)
    for name, given in (("file", calibration.path), ("object", calibration), ("list", [calibration])):
        nibble.quantize(demo / "gpt2-demo", tmp_path / name, recipe, calibration=given)
    for name in ("object", "list"):
        assert (tmp_path / name / "model.safetensors").read_bytes() == (tmp_path / "file" / "model.safetensors").read_bytes()
    assert nibble.Calibration(calibration).layers == calibration.layers
    parts = [nibble.calibrate(demo / "gpt2-demo", tmp_path / f"{seed}.h5", text=demo / "calibration.txt", samples=2,
                              length=32, seed=seed, collect="activations") for seed in (1, 2)]
    assert nibble.Calibration.merge(parts, tmp_path / "both.h5").settings["windows"] == "4"


def test_output_hessians_are_scaled_sums_of_gradients(calibration, demo, tmp_path):
    layer = calibration[calibration.layers[0]]
    h = layer.output_hessian
    assert h.shape == (layer.shape[0],) * 2 and h.dtype == np.float32
    np.testing.assert_array_equal(h, h.T)
    np.testing.assert_allclose(np.diag(h).mean(), 1.0, rtol=1e-6)  # rounded to float32 one by one
    assert np.linalg.eigvalsh(h.astype(np.float64)).min() > -1e-5 * len(h)
    without = nibble.calibrate(demo / "gpt2-demo", tmp_path / "without.h5", text=demo / "calibration.txt", samples=2,
                               length=32)
    with pytest.raises(nibble.InvalidArgument, match="output-hessian"):
        without[without.layers[0]].output_hessian


def test_recipes():
    recipe = nibble.Recipe("gptq", bits=3)
    assert recipe.as_dict()["defaults"]["bits"] == 3 and "gptq" in nibble.Recipe.presets()
    assert nibble.Recipe.parse(recipe.text()) == recipe
    assert recipe.with_keys({"damping": 0.02}) != recipe
    assert nibble.Recipe(shifting=True).as_dict()["defaults"]["shifting"] is True
    with pytest.raises(nibble.InvalidArgument, match="did you mean 'bits'"):
        nibble.Recipe(bit=3)
    with pytest.raises(nibble.InvalidArgument):
        nibble.Recipe.parse("defaults: {bits: 17}")


def test_quantize_writes_what_quantize_tensor_makes(quantized, demo):
    output, report = quantized
    original, made = nibble.Checkpoint(demo / "gpt2-demo"), nibble.Checkpoint(output)
    assert report["tensors"] == json.loads((output / "quantization.json").read_text())["tensors"]
    recipe = nibble.Recipe(bits=3, granularity="channel")
    for name in original.layers[:6]:
        tensor = nibble.quantize_tensor(original.weight(name), recipe, name)
        stored = made.quantized(name)
        assert tensor.parts == stored.parts and tensor.format == stored.format
        for part in stored.parts:
            np.testing.assert_array_equal(tensor.part(part), stored.part(part))
            assert not stored.part(part).flags.writeable
        np.testing.assert_array_equal(made.weight(name), tensor.decode())
        np.testing.assert_array_equal(np.take_along_axis(stored.palettes(), stored.codes().astype(int), axis=1),
                                      tensor.decode())
    assert made.size()["bits_per_weight"] == pytest.approx(report["bits_per_weight"])
    with pytest.raises(nibble.InvalidArgument, match="exist"):
        nibble.quantize(demo / "gpt2-demo", output)


def test_codes_of_windows_overlap(rng):
    """Each code's low bits are the high ones of the code above (docs/formats.md), and names an entry of the palette."""
    w = rng.standard_normal((40, 8)).astype(np.float32)
    tensor = nibble.quantize_tensor(w, nibble.Recipe(bits=2, window_bits=6))
    codes, palette = tensor.codes(), tensor.palettes()[0]
    assert codes.dtype == np.uint16 and codes.shape == w.shape and palette.shape == (64,)
    np.testing.assert_array_equal(codes[1:] & 15, codes[:-1] >> 2)
    np.testing.assert_array_equal(palette[codes], tensor.decode())


def test_quantize_with_statistics_is_quantize_tensor(calibration, demo, tmp_path):
    recipe = nibble.Recipe("gptq", bits=3)
    kind = recipe.as_dict()["defaults"].get("hessian", "plain")
    nibble.quantize(demo / "gpt2-demo", tmp_path / "gptq", recipe, calibration=calibration.path)
    original, made = nibble.Checkpoint(demo / "gpt2-demo"), nibble.Checkpoint(tmp_path / "gptq")
    name = original.layers[1]
    tensor = nibble.quantize_tensor(original.weight(name), recipe, name, hessian=calibration[name].hessian(kind),
                                    fisher=calibration[name].fisher, mean_input=calibration[name].mean_input)
    np.testing.assert_array_equal(made.weight(name), tensor.decode())
    with pytest.raises(nibble.InvalidArgument, match="asks for hessian; give hessian="):
        nibble.quantize_tensor(original.weight(name), recipe, name)


def test_quantize_tensor_takes_an_output_hessian(calibration, demo, tmp_path):
    recipe = nibble.Recipe("gptq", bits=3, solver="coordinate-descent", output_hessian=True)
    nibble.quantize(demo / "gpt2-demo", tmp_path / "coupled", recipe, calibration=[calibration])
    original, made = nibble.Checkpoint(demo / "gpt2-demo"), nibble.Checkpoint(tmp_path / "coupled")
    name = original.layers[1]
    layer = calibration[name]
    given = dict(hessian=layer.hessian(recipe.as_dict()["defaults"].get("hessian", "plain")), fisher=layer.fisher,
                 mean_input=layer.mean_input)
    tensor = nibble.quantize_tensor(original.weight(name), recipe, name, output_hessian=layer.output_hessian, **given)
    np.testing.assert_array_equal(made.weight(name), tensor.decode())
    with pytest.raises(nibble.InvalidArgument, match="give output_hessian="):
        nibble.quantize_tensor(original.weight(name), recipe, name, **given)
    with pytest.raises(nibble.InvalidArgument, match=r"output_hessian: expected"):
        nibble.quantize_tensor(original.weight(name), recipe, name, output_hessian=np.eye(3, dtype=np.float32), **given)


def statistics_for(recipe, layer):
    """What quantize() takes of a calibration for a recipe whose codes are solved under a centred Hessian."""
    kind = recipe.as_dict()["defaults"]["hessian"]
    return dict(hessian=layer.hessian(kind), output_hessian=layer.output_hessian, mean_input=layer.correction_mean(kind))


@pytest.mark.parametrize("preset", ["scalar-one-shot", "windowed-one-shot"])
def test_one_shot_presets_by_layer_are_those_of_the_model(calibration, demo, tmp_path, preset):
    recipe = nibble.Recipe(preset)
    nibble.quantize(demo / "gpt2-demo", tmp_path / "made", recipe, calibration=calibration)
    original, made = nibble.Checkpoint(demo / "gpt2-demo"), nibble.Checkpoint(tmp_path / "made")
    name = "h.1.mlp.c_fc"
    tensor = nibble.quantize_tensor(original.weight(name), recipe, name, **statistics_for(recipe, calibration[name]))
    for part in made.quantized(name).parts:
        np.testing.assert_array_equal(tensor.part(part), made.quantized(name).part(part))
    bias = original.tensor(name + ".bias")
    np.testing.assert_array_equal(made.tensor(name + ".bias"),
                                  (bias.astype(np.float32) + tensor.bias_correction).astype(bias.dtype))


def test_outputs_without_gradients_count_alone(demo, tmp_path):
    """Rows of zeros in a projection leave what it projects without a gradient: here one output, or all of them."""
    name, behind = "h.0.mlp.c_fc", "h.0.mlp.c_proj.weight"
    recipe = nibble.Recipe("windowed-one-shot")
    for silent in (slice(3, 4), slice(None)):
        model, output = tmp_path / f"model{silent.start}", tmp_path / f"made{silent.start}"
        shutil.copytree(demo / "gpt2-demo", model)
        raw = bytearray((model / "model.safetensors").read_bytes())
        data = 8 + int.from_bytes(raw[:8], "little")
        begin, end = json.loads(raw[8:data])[behind]["data_offsets"]
        weight = np.frombuffer(memoryview(raw)[data + begin:data + end], np.float16)
        weight.reshape(nibble.Checkpoint(model).tensor(behind).shape)[silent] = 0  # (in, out)
        (model / "model.safetensors").write_bytes(raw)
        calibration = nibble.calibrate(model, tmp_path / f"calib{silent.start}.h5", text=demo / "calibration.txt", samples=2,
                                       length=64, collect="activations,guided-hessian,output-hessian")
        given = statistics_for(recipe, calibration[name])
        assert not given["output_hessian"].diagonal()[silent].any()
        tensor = nibble.quantize_tensor(nibble.Checkpoint(model).weight(name), recipe, name, **given)
        nibble.quantize(model, output, recipe, calibration=calibration)
        np.testing.assert_array_equal(nibble.Checkpoint(output).weight(name), tensor.decode())


def test_correction_means_go_with_their_hessians(calibration):
    layer = calibration["h.1.mlp.c_fc"]
    np.testing.assert_array_equal(layer.correction_mean(), layer.mean_input)
    np.testing.assert_array_equal(layer.correction_mean("centred"), layer.mean_input)
    mean = layer.correction_mean("guided-centred")
    np.testing.assert_array_equal(layer.correction_mean("guided"), mean)
    # What centring takes off is Σ s / N · μ μᵀ, a multiple of the product of that mean alone.
    lost = layer.hessian("guided").astype(np.float64) - layer.hessian("guided-centred")
    largest = np.abs(mean).argmax()
    for given, fits in ((mean, True), (layer.mean_input, False)):
        product = np.outer(given, given) / given[largest] ** 2
        assert (np.abs(lost / lost[largest, largest] - product).max() < 1e-5) == fits
    with pytest.raises(nibble.InvalidArgument, match="kind: expected plain or centred or guided"):
        layer.correction_mean("median")


@pytest.mark.parametrize("preset, keys, what", [("best-mixed", {}, "budget"), ("scalar-tuned", {}, "tuning"),
                                                ("int4-block", {"input_scaling": "awq"}, "input_scaling")])
def test_quantize_tensor_refuses_what_takes_a_model(calibration, demo, preset, keys, what):
    recipe, name = nibble.Recipe(preset, **keys), "h.1.mlp.c_fc"
    w, layer = nibble.Checkpoint(demo / "gpt2-demo").weight(name), calibration[name]
    given = dict(hessian=layer.hessian("guided-centred"), output_hessian=layer.output_hessian, mean_input=layer.mean_input)
    with pytest.raises(nibble.InvalidArgument, match=f"^quantize_tensor: .*{what}"):
        nibble.quantize_tensor(w, recipe, name, **given)


def test_shifting_corrects_the_mean_output(calibration, demo):
    name = calibration.layers[0]
    w, mean = nibble.Checkpoint(demo / "gpt2-demo").weight(name), calibration[name].mean_input
    tensor = nibble.quantize_tensor(w, nibble.Recipe(bits=2, shifting=True), name, mean_input=mean)
    expected = (w.astype(np.float64) - tensor.decode()) @ mean
    np.testing.assert_allclose(tensor.bias_correction, expected, rtol=1e-5, atol=1e-6)  # stored as float32


def test_logits_however_the_text_is_cut(demo, eval_text):
    for name in ("gpt2-demo", "llama-demo"):
        model = nibble.Model(demo / name)
        ids = nibble.Tokenizer(demo / name).encode(eval_text)[:48]
        whole = model.logits(ids)
        assert whole.shape == (48, model.vocabulary)
        scale = np.abs(whole).max()
        # Fewer rows are multiplied in another order: float32 networks of this depth agree to 2e-5 of their logits.
        np.testing.assert_allclose(model.logits(ids, last=3), whole[-3:], atol=2e-5 * scale)
        for cache in ("state", "io", "none"):
            sequence = model.sequence(cache=cache, capacity=64)
            first, second = sequence.extend(ids[:40], last=40), sequence.extend(ids[40:], last=8)
            np.testing.assert_allclose(np.concatenate([first, second]), whole, atol=2e-5 * scale)
            assert len(sequence) == 48
        with pytest.raises(nibble.InvalidArgument, match="do not fit"):
            sequence.extend(ids)


def test_several_tokens_go_before_a_text(demo, tmp_path):
    for file in (demo / "llama-demo").iterdir():
        shutil.copy(file, tmp_path)
    file = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    ids = {token: file["model"]["vocab"][token] for token in ("b", "a")}
    special = [{"SpecialToken": {"id": token, "type_id": 0}} for token in ids]
    file["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [*special, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [*special, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]} for token, id in ids.items()},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
    tokenizer = nibble.Tokenizer(tmp_path)
    assert tokenizer.added_prefix == list(ids.values())
    assert tokenizer.added_bos is None
    model = nibble.Model(tmp_path)
    prompt = tokenizer.added_prefix + [int(id) for id in tokenizer.encode("The door")]
    np.testing.assert_array_equal(model.generate("The door", max_tokens=8), model.generate(prompt, max_tokens=8))


def test_generate(demo):
    model = nibble.Model(demo / "llama-demo")
    tokens = model.generate("The door", max_tokens=12)
    tokenizer = nibble.Tokenizer(demo / "llama-demo")
    prompt = [tokenizer.added_bos] if tokenizer.added_bos is not None else []
    assert tokenizer.added_prefix == prompt
    prompt += [int(id) for id in tokenizer.encode("The door")]
    np.testing.assert_array_equal(tokens, model.generate(prompt, max_tokens=12))
    for step in range(3):  # greedy: each is the likeliest
        logits = model.logits(prompt + [int(t) for t in tokens[:step]], last=1)[0]
        assert tokens[step] == int(np.argmax(logits))
    seen = []
    stopped = model.generate("The door", max_tokens=12, on_token=lambda id: seen.append(id) or len(seen) == 5)
    np.testing.assert_array_equal(stopped, tokens[:5])
    assert seen == list(tokens[:5])
    with pytest.raises(KeyError):
        model.generate("The door", on_token=lambda id: {}[id])
    np.testing.assert_array_equal(model.generate("The door", 8, temperature=1.0, seed=3),
                                  model.generate("The door", 8, temperature=1.0, seed=3))


def test_loglikelihood_however_requests_share(demo, eval_text, rng):
    for name in ("gpt2-demo", "llama-demo"):
        model = nibble.Model(demo / name)
        ids = [int(i) for i in nibble.Tokenizer(demo / name).encode(eval_text)]
        requests = [(ids[:100], ids[100:100 + n]) for n in (1, 2, 5)]           # endings of one context
        requests += [(ids[:100], [int(t) for t in rng.integers(0, 200, 4)]) for _ in range(3)]
        requests += [(ids[:60], ids[60:80]), (ids[:70], ids[70:71])]            # one the beginning of another
        requests += [(ids[i:i + 3], ids[i + 3:i + 4]) for i in range(0, 200, 17)]
        requests += [(ids[:2 * model.max_positions], ids[:3])]                  # too long: loses its beginning
        together = model.loglikelihood(requests)
        for (context, continuation), (score, greedy) in zip(requests, together):
            text = (context + continuation)[:-1][-model.max_positions:]
            logits = model.logits(text, last=len(continuation)).astype(np.float64)
            logits -= logits.max(axis=1, keepdims=True)
            p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
            # Rows of float32 logits differ by where they stand in a product: 2e-5 of their size, over a few tokens.
            assert score == pytest.approx(sum(p[i, t] for i, t in enumerate(continuation)), abs=2e-3)
            assert greedy == all(int(np.argmax(p[i])) == t for i, t in enumerate(continuation))
    with pytest.raises(nibble.InvalidArgument, match="at least one token of context"):
        model.loglikelihood([([], [1])])


def test_perplexity_and_compare(quantized, demo, eval_text):
    reference, model = nibble.Model(demo / "gpt2-demo", "reference"), nibble.Model(quantized[0])
    tokens = nibble.Tokenizer(demo / "gpt2-demo").encode(eval_text)
    result = nibble.perplexity(reference, tokens=tokens, protocol="blocks", context=64)
    blocks = [tokens[i:i + 64] for i in range(0, len(tokens) - 63, 64)]
    means = []
    for block in blocks:
        logits = reference.logits(block).astype(np.float64)
        p = logits - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True)) - logits.max(1, keepdims=True)
        means.append(-np.mean([p[i, t] for i, t in enumerate(block[1:])]))
    np.testing.assert_allclose(result.window_nll, means, rtol=1e-4)
    assert result.perplexity == pytest.approx(np.exp(np.mean(means)), rel=1e-4)
    comparison = nibble.compare(model, reference, text=eval_text, context=64)
    assert comparison.kl > 0 and 0 < comparison.top1_agreement < 1
    assert comparison.model.perplexity == pytest.approx(nibble.perplexity(model, text=eval_text, context=64).perplexity)
    p, q = reference.logits(tokens[:8]), model.logits(tokens[:8])
    a, b = (x.astype(np.float64) - np.log(np.exp(x.astype(np.float64)).sum(1, keepdims=True)) for x in (p, q))
    np.testing.assert_allclose(nibble.divergence(p, q), (np.exp(a) * (a - b)).sum(1), rtol=1e-9, atol=1e-12)
    with pytest.raises(nibble.InvalidArgument, match="got 2 of them"):
        nibble.perplexity(model, text="a", tokens=[1])


def test_windows_behind_the_bos(demo, eval_text, tmp_path):
    shutil.copytree(demo / "gpt2-demo", tmp_path / "model")
    (tmp_path / "model" / "tokenizer_config.json").write_text('{"add_bos_token": true, "bos_token": "<|endoftext|>"}')
    model = nibble.Model(tmp_path / "model")
    bos = nibble.Tokenizer(tmp_path / "model").added_bos
    tokens = nibble.Tokenizer(tmp_path / "model").encode(eval_text)[:320]
    replaced = [bos if i % 64 == 0 else token for i, token in enumerate(tokens)]
    blocks = dict(protocol="blocks", context=64)
    behind = nibble.perplexity(model, tokens=tokens, bos=True, **blocks).perplexity
    assert behind == nibble.perplexity(model, tokens=replaced, **blocks).perplexity
    assert behind != nibble.perplexity(model, tokens=tokens, **blocks).perplexity
    assert nibble.compare(model, nibble.Model(demo / "gpt2-demo"), tokens=tokens, bos=True, **blocks).model.perplexity == behind
    calibration = nibble.calibrate(tmp_path / "model", tmp_path / "calib.h5", text=demo / "calibration.txt", samples=2, length=32,
                                   collect="activations", bos=True)
    assert calibration.settings["sampling"] == "random slices behind the BOS"
    with pytest.raises(nibble.InvalidArgument, match="a BOS before texts"):
        nibble.perplexity(nibble.Model(demo / "gpt2-demo"), tokens=tokens, bos=True, **blocks)
    with pytest.raises(nibble.InvalidArgument, match="bos="):
        nibble.quantize(demo / "gpt2-demo", tmp_path / "out", nibble.Recipe(), bos=True)


def test_python_threads_take_turns(demo):
    model = nibble.Model(demo / "gpt2-demo")
    expected = model.logits([1, 2, 3])
    wrong = []

    def work():
        for _ in range(20):
            if not np.array_equal(model.logits([1, 2, 3]), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_sweep_as_a_frame(demo, tmp_path):
    pytest.importorskip("pandas")
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(f"""
models: [{demo / "gpt2-demo"}]
evaluations:
  - {{name: eval, text: {demo / "eval.txt"}, max_tokens: 512, protocol: blocks, context: 64, divergence: true}}
grid:
  bits: [3, 2]
list:
  - float
""")
    records = nibble.run_sweep(sweep, tmp_path / "results")
    table = nibble.frame(records)
    assert len(table) == len(records) and set(table.columns) >= {"model", "recipe", "bits", "perplexity", "kl"}
    by_bits = table.dropna(subset=["bits"]).set_index("bits")["perplexity"]
    assert by_bits[2] > by_bits[3]
    assert nibble.frame(tmp_path / "results").equals(table)
    for row, record in zip(table.to_dict("records"), records):
        measures = record["measures"]
        for column in ("perplexity", "perplexity_stderr", "bits_per_byte", "bits_per_weight", "model_bits_per_weight",
                       "model_bytes"):
            assert row[column] == measures[column]
        assert row["nll"] == measures["nll_nats_per_token"]
        divergence = measures.get("divergence", {})  # of the float model none
        for column, key in (("kl", "nats_per_token"), ("kl_stderr", "stderr"), ("kl_median", "median"),
                            ("top1_agreement", "top1_agreement")):
            assert row[column] == divergence[key] if divergence else np.isnan(row[column])
        assert row["error"] is None
    assert all(record["environment"]["threads"] for record in records)


def test_frames_tell_draws_and_names(demo, tmp_path):
    """Rows of different draws differ in their columns; what is called like a number stays a name."""
    pytest.importorskip("pandas")
    (tmp_path / "1e5").symlink_to(demo / "gpt2-demo")
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(f"""
models: [{tmp_path / "1e5"}]
calibration: {{text: {demo / "calibration.txt"}, samples: 4, length: 32, seed: [0, 1]}}
evaluations:
  - {{name: "7", text: {demo / "eval.txt"}, max_tokens: 128, protocol: blocks, context: 64}}
list:
  - {{name: nan, bits: 3, weighting: fisher}}
""")
    table = nibble.frame(nibble.run_sweep(sweep, tmp_path / "results"))
    assert sorted(table["calibration.seed"]) == [0, 1] and list(table["calibration.samples"]) == [4, 4]
    assert list(table["model"]) == ["1e5"] * 2 and list(table["evaluation"]) == ["7"] * 2
    assert all(name.startswith("nan") for name in table["recipe"])
    # The names as they are, from a record whose labels and hash all look like numbers.
    record = {"id": "0" * 32, "labels": {"recipe": "nan"}, "settings": {"recipe": "nan", "text_hash": "12e4", "bits": "3"}}
    row = nibble.frame([record]).iloc[0]
    assert row["recipe"] == "nan" and row["text_hash"] == "12e4" and row["bits"] == 3
