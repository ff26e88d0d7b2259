"""Palettes against plain loops over all ways to cut sorted values."""
import itertools

import nibble
import numpy as np
import pytest


def cost_of(x, w, centroids):
    """E in float64, value by value."""
    return sum(float(wi) * min((float(xi) - float(c)) ** 2 for c in centroids) for xi, wi in zip(x, w))


def best_cost(x, w, k):
    """The optimum, by trying every way to cut the sorted values into k runs."""
    order = np.argsort(x)
    x, w = x[order].astype(np.float64), w[order].astype(np.float64)
    best = np.inf
    for cuts in itertools.combinations(range(1, len(x)), k - 1):
        total = 0.0
        for begin, end in zip((0, *cuts), (*cuts, len(x))):
            mean = np.sum(w[begin:end] * x[begin:end]) / np.sum(w[begin:end])
            total += np.sum(w[begin:end] * (x[begin:end] - mean) ** 2)
        best = min(best, total)
    return best


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_fit_palette_is_optimal(rng, k):
    for _ in range(5):
        x = rng.standard_normal(12).astype(np.float32)
        w = rng.random(12).astype(np.float32) + 0.01
        palette = nibble.fit_palette(x, w, centroids=k)
        assert palette.centroids.shape == (k,) and np.all(np.diff(palette.centroids) >= 0)
        # Centroids are rounded to float32: a relative error of 2^-24 in each moves the cost by less than 1e-6 of it.
        assert palette.cost == pytest.approx(best_cost(x, w, k), rel=1e-6, abs=1e-12)
        assert palette.cost == pytest.approx(cost_of(x, w, palette.centroids), rel=1e-12)
        assert palette.lower_bound <= palette.cost
        assert nibble.palette_cost(x, palette.centroids, w) == pytest.approx(palette.cost, rel=1e-12)


def test_fit_palettes_are_those_of_the_groups(rng):
    w = rng.standard_normal((7, 50)).astype(np.float32)
    weights = rng.random((7, 50)).astype(np.float32)
    for group_rows in (1, 3, 0):
        fitted = nibble.fit_palettes(w, weights, centroids=5, group_rows=group_rows)
        step = group_rows or 7
        for group, begin in enumerate(range(0, 7, step)):
            alone = nibble.fit_palette(w[begin:begin + step], weights[begin:begin + step], centroids=5)
            np.testing.assert_array_equal(fitted.centroids[group], alone.centroids)
            assert fitted.cost[group] == alone.cost and fitted.lower_bound[group] == alone.lower_bound


def test_assign_gives_the_nearest_entry(rng):
    w = rng.standard_normal((6, 40)).astype(np.float32)
    palettes = np.sort(rng.standard_normal((3, 8)).astype(np.float32), axis=1)
    codes = nibble.assign(w, palettes, group_rows=2)
    for i in range(6):
        for j in range(40):
            distances = np.abs(palettes[i // 2].astype(np.float64) - float(w[i, j]))
            assert codes[i, j] == int(np.argmin(distances))
    with pytest.raises(nibble.InvalidArgument, match="need 3 palettes, got 2"):
        nibble.assign(w, palettes[:2], group_rows=2)


def test_palettize_stores_what_it_measures(rng):
    w = rng.standard_normal((8, 64)).astype(np.float32)
    weights = rng.random((8, 64)).astype(np.float32)
    made = nibble.palettize(w, weights, bits=3, group_rows=4)
    assert made.palettes.shape == (2, 8)
    np.testing.assert_array_equal(made.palettes, made.palettes.astype(np.float16).astype(np.float32))
    decoded = np.array([[made.palettes[i // 4, made.codes[i, j]] for j in range(64)] for i in range(8)])
    cost = np.sum(weights.astype(np.float64) * (w.astype(np.float64) - decoded) ** 2)
    assert made.cost == pytest.approx(cost, rel=1e-12)  # sums of 512 terms in float64
    assert 0 <= made.optimality_gap < 1e-9


def test_scaled_palettes_never_get_worse(rng):
    w = (rng.standard_normal((8, 64)) * rng.lognormal(size=(8, 1))).astype(np.float32)
    weights = rng.random((8, 64)).astype(np.float32)
    made = nibble.palettize_scaled(w, weights, bits=3, scale="std", sign="search", joint_iterations=3)
    decoded = made.scales[:, None].astype(np.float64) * made.palettes[0][made.codes]
    # Products s · c are rounded to float32 when decoded: 2^-24 of each value, far below its error at 3 bits.
    assert made.cost == pytest.approx(np.sum(weights * (w - decoded) ** 2), rel=1e-5)
    assert np.all(np.diff(made.history) <= 0)
    np.testing.assert_array_equal(nibble.row_scales(w), nibble.row_scales(w).astype(np.float16))
    deviations = w.astype(np.float64).std(axis=1, ddof=1)
    np.testing.assert_allclose(nibble.row_scales(w), deviations, rtol=2.0**-11)  # rounded to float16


def test_vector_palettes(rng):
    w = rng.standard_normal((4, 64)).astype(np.float32)
    made = nibble.palettize_vectors(w, bits=4, dim=2)
    entries = made.palettes.reshape(16, 2)
    decoded = entries[made.codes].reshape(4, 64)
    # Its terms are summed in float32 (documented).
    assert made.cost == pytest.approx(np.sum((w.astype(np.float64) - decoded) ** 2), rel=1e-4)


def test_round_palette(rng):
    entries = np.sort(rng.standard_normal(16).astype(np.float32))
    np.testing.assert_array_equal(nibble.round_palette(entries, "float16"), entries.astype(np.float16))
    integers = nibble.round_palette(entries, "int8")
    unit = np.float32(np.float16(np.abs(entries).max() / 127))
    np.testing.assert_array_equal(integers, np.clip(np.round(entries / unit), -127, 127).astype(np.float32) * unit)


@pytest.mark.parametrize("call, message", [
    (lambda: nibble.fit_palette(np.zeros(0, np.float32)), "there are no values"),
    (lambda: nibble.fit_palette(np.array([1, np.nan], np.float32)), "1"),
    (lambda: nibble.fit_palette(np.ones(3, np.float32), -np.ones(3, np.float32)), "weight"),
    (lambda: nibble.fit_palette(np.ones(3, np.float32), centroids=257), "256"),
    (lambda: nibble.palettize(np.ones((2, 2), np.float32), np.ones((2, 3), np.float32)), r"\(2, 2\) but weights \(2, 3\)"),
    (lambda: nibble.palettize(np.ones((2, 2), np.float32), bits=9), "1 to 8 bits, got 9"),
    (lambda: nibble.palettize(np.ones((2, 2), np.float32), palette_dtype="float8"), "float16 or float32 or int8"),
])
def test_wrong_arguments_say_what_is_wrong(call, message):
    with pytest.raises(nibble.InvalidArgument, match=message):
        call()


def test_errors_are_what_python_calls_such_things(demo):
    assert issubclass(nibble.InvalidArgument, ValueError) and issubclass(nibble.InvalidArgument, nibble.Error)
    assert issubclass(nibble.FormatError, OSError) and issubclass(nibble.NumericalError, ArithmeticError)
    with pytest.raises(nibble.NumericalError, match="row 1, column 0 is nan"):
        nibble.palettize(np.array([[1, 2], [np.nan, 3]], np.float32))
    with pytest.raises(nibble.FormatError, match="config.json"):
        nibble.Checkpoint("/nowhere")
    with pytest.raises(nibble.FormatError, match="too long"):  # what the file system itself says
        nibble.calibrate(demo / "gpt2-demo", "n" * 5000, text=demo / "eval.txt")
