"""What must be refused with a message, and never read or written where nothing is."""
import copy
import pickle

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
