#!/usr/bin/env python3
"""One-dimensional k-means of the same rows by nibble, kmeans1d, flash1dkmeans and scikit-learn: time and cost reached.

    compare_kmeans.py MODEL [--bits 2 3 4] [--rows 64 | --tensors 2] [--repeat 3]

Needs python/requirements-bench.txt. Rows are those of a checkpoint's widest layer, float32, or with --tensors whole layers, each as one row; without weights
(kmeans1d has none) and with sensitivities. Each method is given one thread and its own defaults, except that scikit-learn starts
once from k-means++. Costs are summed in float64 over the same values, relative to the best of all.
"""
import argparse
import os
import pathlib
import statistics
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import nibble
import numpy as np


def methods():
    yield "nibble, proved optimum", lambda x, w, k: nibble.fit_palette(x, w, centroids=k).centroids, True
    yield "nibble, gap 1 %", lambda x, w, k: nibble.fit_palette(x, w, centroids=k, gap=0.01).centroids, True
    try:
        import kmeans1d

        yield "kmeans1d (exact)", lambda x, w, k: kmeans1d.cluster(x, k).centroids, False
    except ImportError:
        print("kmeans1d is not installed")
    try:
        import flash1dkmeans

        def flash(x, w, k):
            order = np.argsort(x, kind="stable")
            values = np.ascontiguousarray(x[order], np.float64)
            weights = None if w is None else np.ascontiguousarray(w[order], np.float64)
            result = flash1dkmeans.kmeans_1d(values, k, sample_weights=weights, is_sorted=True, random_state=0)
            return result[0]

        yield "flash1dkmeans", flash, True
    except ImportError:
        print("flash1dkmeans is not installed")
    try:
        from sklearn.cluster import KMeans

        def lloyd(x, w, k):
            return KMeans(k, n_init=1, random_state=0).fit(x[:, None], sample_weight=w).cluster_centers_[:, 0]

        yield "scikit-learn KMeans", lloyd, True
    except ImportError:
        print("scikit-learn is not installed")


def cost(x, w, centroids):
    centroids = np.sort(np.asarray(centroids, np.float64))
    x = x.astype(np.float64)
    middle = (centroids[1:] + centroids[:-1]) / 2
    error = (x - centroids[np.searchsorted(middle, x)]) ** 2
    return float(error.sum() if w is None else (w.astype(np.float64) * error).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--bits", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--tensors", type=int, default=0, help="whole layers in place of rows")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    nibble.set_threads(1)
    checkpoint = nibble.Checkpoint(arguments.model)
    chosen = np.random.default_rng(0)
    wide = max(checkpoint.layers, key=lambda layer: checkpoint.layer(layer)["shape"][1])
    if arguments.tensors:
        alike = [layer for layer in checkpoint.layers if checkpoint.layer(layer)["shape"] == checkpoint.layer(wide)["shape"]]
        rows = np.stack([checkpoint.weight(layer).ravel() for layer in alike[:arguments.tensors]])
    else:
        w = checkpoint.weight(wide)
        rows = w[chosen.choice(len(w), min(arguments.rows, len(w)), replace=False)]
    sensitivities = chosen.lognormal(sigma=2.0, size=rows.shape).astype(np.float32)
    print(f"{len(rows)} {'tensors' if arguments.tensors else 'rows'} of {rows.shape[1]} values, {wide}{' and its like' if arguments.tensors else ''}; one thread, processor time; median of {arguments.repeat} passes\n")
    print("| weights | k | method | µs per row (processor) | worst cost | mean cost |\n|---|---|---|---|---|---|")
    for weighted in (False, True):
        for bits in arguments.bits:
            found = []
            for title, fit, takes_weights in methods():
                if weighted and not takes_weights:
                    continue
                given = [(x, s if weighted else None) for x, s in zip(rows, sensitivities)]
                centroids = [fit(x, s, 2**bits) for x, s in given]  # warm: compiled, paged in
                times = []
                for _ in range(arguments.repeat):
                    begin = time.process_time()
                    for x, s in given:
                        fit(x, s, 2**bits)
                    times.append((time.process_time() - begin) / len(rows))
                found.append((title, statistics.median(times), [cost(x, s, c) for (x, s), c in zip(given, centroids)]))
            best = np.min([costs for _, _, costs in found], axis=0)
            for title, seconds, costs in found:
                excess = np.asarray(costs) / best - 1
                print(f"| {'sensitivities' if weighted else 'none'} | {2**bits} | {title} | {1e6 * seconds:,.0f} | "
                      f"+{100 * excess.max():.4f} % | +{100 * excess.mean():.4f} % |", flush=True)


if __name__ == "__main__":
    main()
