"""Grids, error feedback, coordinate descent and updates against plain loops."""
import nibble
import numpy as np
import pytest


@pytest.fixture
def problem(rng):
    """A weight (6, 16) and a Hessian of correlated inputs."""
    x = rng.standard_normal((64, 16)) @ rng.standard_normal((16, 16))
    return rng.standard_normal((6, 16)).astype(np.float32), (x.T @ x / 64).astype(np.float32)


def loss_of(w, decoded, h):
    delta = w.astype(np.float64) - decoded
    return float(np.einsum("ij,jk,ik->", delta, h.astype(np.float64), delta))


def decode(palettes, codes):
    return palettes[0][codes]


@pytest.mark.parametrize("scale, divide", [("extreme-8", None), ("absmax-7", 7.0), ("absmax-7.5", 7.5)])
def test_round_blocks(problem, scale, divide):
    w, _ = problem
    made = nibble.round_blocks(w, bits=4, block=8, scale=scale)
    for i in range(6):
        for b in range(2):
            block = w[i, 8 * b:8 * b + 8]
            extreme = block[np.argmax(np.abs(block))]
            rule = np.float32(extreme / -8 if divide is None else np.abs(extreme) / np.float32(divide))
            step = np.float32(np.float16(rule))
            assert made.scales[i, b] == step
            codes = np.clip(np.round(block * (np.float32(1) / step)) + 8, 0, 15)
            np.testing.assert_array_equal(made.codes[i, 8 * b:8 * b + 8], codes.astype(np.uint8))
    assert made.zeros is None
    assert nibble.round_blocks(w, scale="minmax", block=8).zeros.shape == (6, 2)


def block_error(w, made, block, f=1.0):
    zeros = 8.0 if made.zeros is None else np.repeat(made.zeros.astype(np.float64), block, axis=1)
    decoded = (made.codes - zeros) * np.repeat(made.scales.astype(np.float64), block, axis=1)
    return float(np.sum(f * (w - decoded) ** 2))


def test_searched_scales_are_never_worse(problem, rng):
    w, h = problem
    weights = rng.random(w.shape).astype(np.float32)
    for scale in ("extreme-8", "minmax"):
        ruled = nibble.round_blocks(w, block=8, scale=scale)
        assert block_error(w, nibble.search_blocks(w, block=8, scale=scale), 8) <= block_error(w, ruled, 8) * (1 + 1e-6)
        searched = nibble.search_blocks(w, weights, block=8, scale=scale)
        assert block_error(w, searched, 8, weights) <= block_error(w, ruled, 8, weights) * (1 + 1e-6)
    assert nibble.search_blocks(w, hessian=h, block=8).codes.shape == w.shape
    with pytest.raises(nibble.InvalidArgument, match="got both"):
        nibble.search_blocks(w, weights, h)


def test_gptq_is_the_plain_recursion(problem):
    w, h = problem
    palettes = nibble.palettize(w, bits=3).palettes
    factor = nibble.factor_hessian(h, damping=0.01, act_order=True)
    result = nibble.gptq(w, factor, nibble.palette_grid(palettes))
    work, order, upper = w.astype(np.float64), factor.order.astype(int), factor.upper.astype(np.float64)
    codes = np.zeros(w.shape, np.uint8)
    for p, j in enumerate(order):
        codes[:, j] = np.argmin(np.abs(work[:, j, None] - palettes[0]), axis=1)
        error = (work[:, j] - palettes[0][codes[:, j]]) / upper[p, p]
        for q in range(p + 1, len(order)):
            work[:, order[q]] -= error * upper[p, q]
    np.testing.assert_array_equal(result.codes, codes)
    # U itself: UᵀU is the inverse of the damped H, in that order; float32 factors of condition numbers in the hundreds.
    damped = h.astype(np.float64) + np.diag(factor.damping)
    np.testing.assert_allclose(upper.T @ upper @ damped[np.ix_(order, order)], np.eye(16), atol=2e-3)


def test_solvers_lower_the_loss(problem):
    w, h = problem
    made = nibble.palettize(w, bits=2)
    grid = nibble.palette_grid(made.palettes)
    nearest = loss_of(w, decode(made.palettes, made.codes), h)
    gptq = nibble.gptq(w, nibble.factor_hessian(h), grid)
    feedback = loss_of(w, decode(made.palettes, gptq.codes), h)
    assert feedback < nearest
    codes = np.array(gptq.codes)
    result = nibble.coordinate_descent(w, h, grid, codes, sweeps=8)
    assert result.loss == pytest.approx(loss_of(w, decode(made.palettes, codes), h), rel=1e-4)  # products in float32
    assert result.loss <= result.loss_before and result.loss_before == pytest.approx(feedback, rel=1e-4)
    assert nibble.hessian_error(w, decode(made.palettes, codes), h) == pytest.approx(result.loss, rel=1e-4)

    weight = nibble.PaletteWeight(made.palettes, codes)
    before = loss_of(w, decode(weight.palettes, weight.codes), h)
    weight.update_palette(w, h, palette_dtype="float32")
    after = loss_of(w, decode(weight.palettes, weight.codes), h)
    assert after <= before * (1 + 1e-5)
    losses = weight.refine(w, h, nibble.factor_hessian(h), iterations=2)
    assert min(losses) <= losses[0]
    weight.update_scales(w, h)
    assert weight.scales.shape == (6,)


def test_coordinate_descent_changes_the_callers_codes(problem):
    w, h = problem
    made = nibble.palettize(w, bits=2)
    codes = np.zeros(w.shape, np.uint8)
    nibble.coordinate_descent(w, h, nibble.palette_grid(made.palettes), codes, sweeps=4)
    assert codes.any()
    for wrong in (codes.astype(np.int64), made.codes):  # would be converted, or is read-only: changes would be lost
        with pytest.raises(TypeError):
            nibble.coordinate_descent(w, h, nibble.palette_grid(made.palettes), wrong)


def test_block_grid_adapts(problem):
    w, h = problem
    grid = nibble.block_grid(w, block=8, static_groups=False)
    before = grid.scales.copy()
    result = nibble.gptq(w, nibble.factor_hessian(h, act_order=False), grid)
    np.testing.assert_array_equal(grid.scales[:, 0], before[:, 0])
    assert np.any(grid.scales[:, 1] != before[:, 1])
    decoded = (result.codes.astype(np.float64) - 8) * np.repeat(grid.scales, 8, axis=1)
    assert loss_of(w, decoded, h) < block_error(w, nibble.round_blocks(w, block=8), 8) * np.linalg.eigvalsh(h).max()


@pytest.mark.parametrize("bits", range(1, 9))
def test_pack_codes_is_a_little_endian_bit_stream(rng, bits):
    codes = rng.integers(0, 2**bits, (3, 13), dtype=np.uint8)
    packed = nibble.pack_codes(codes, bits)
    for row, stored in zip(codes, packed):
        stream = sum(int(code) << (bits * j) for j, code in enumerate(row))
        assert bytes(stored) == stream.to_bytes((13 * bits + 7) // 8, "little")
    np.testing.assert_array_equal(nibble.unpack_codes(packed, bits, 13), codes)
    np.testing.assert_array_equal(nibble.pack_codes(np.asfortranarray(codes), bits), packed)


def test_unpack_refuses_sizes_that_do_not_fit():
    with pytest.raises(nibble.InvalidArgument, match="rows of 4 bytes do not hold 9 codes of 4 bits"):
        nibble.unpack_codes(np.zeros((2, 4), np.uint8), 4, 9)
    with pytest.raises(nibble.InvalidArgument, match="do not hold"):
        nibble.unpack_codes(np.zeros((2, 4), np.uint8), 4, 2**62)
    with pytest.raises(nibble.InvalidArgument, match="16"):
        nibble.pack_codes(np.full((1, 4), 16, np.uint8), 4)
