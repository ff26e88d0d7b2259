"""Which rows of a table are run again, and what counts as a figure that moved."""

import contextlib
import pathlib
import tempfile
import unittest

from records import SWEEP, check_tables, record, run, table_of

ROWS = [record("3 bits: best", [0.010, 0.014, 0.012], seconds=9.0), record("3 bits: slow", [0.020, 0.022, 0.021], seconds=20.0),
        record("3 bits: quick", [0.030, 0.034, 0.032], seconds=1.0), record("3 bits: good", [0.015, 0.019, 0.017], seconds=2.0)]


@contextlib.contextmanager
def files(**texts):
    with tempfile.TemporaryDirectory() as directory:
        paths = {name: pathlib.Path(directory) / f"{name}.md" for name in texts}
        for name, text in texts.items():
            paths[name].write_text(text, encoding="utf-8")
        yield {name: str(path) for name, path in paths.items()}


class Chosen(unittest.TestCase):
    def test_the_quickest_the_lowest_of_the_quicker_half_and_the_best(self):
        with files(table=table_of(ROWS)) as paths:
            chosen = check_tables.cheap_rows(check_tables.read_table(paths["table"]))
        self.assertEqual(chosen, {("m", "3 bits: quick"), ("m", "3 bits: good"), ("m", "3 bits: best")})

    def test_the_sweep_has_those_rows_and_one_size_of_calibration(self):
        text = "calibration: {samples: [64, 256]}\n" + SWEEP.format(rows='  - {name: "3 bits: best"}\n  - {name: "3 bits: slow"}')
        reduced = check_tables.reduced_sweep(text, {("m", "3 bits: best")})
        self.assertEqual(reduced, "calibration: {samples: [64]}\n" + SWEEP.format(rows='  - {name: "3 bits: best"}'))

    def test_what_is_chosen_of_one_model_is_excluded_of_the_other(self):
        text = "models:\n  - {path: a, name: m}\n  - {path: b, name: n}\nlist:\n" + '  - {name: "3 bits: best"}\n'
        reduced = check_tables.reduced_sweep(text, {("m", "3 bits: best"), ("n", "3 bits: quick")})
        self.assertTrue(reduced.endswith('exclude:\n  - {model: m, recipe: "3 bits: quick"}\n  - {model: n, recipe: "3 bits: best"}\n'))


class Moved(unittest.TestCase):
    def compare(self, factor, rows=ROWS, before=""):
        again = [record(r["labels"]["recipe"], [factor * v for v in r["measures"]["divergence"]["window_nats"]],
                        seconds=r["timings"]["quantize_seconds"], commit="fedcba987654") for r in rows]
        with files(again=table_of(again)) as made, files(table=table_of(ROWS), unlooked=table_of(ROWS)) as paths:
            checks = pathlib.Path(made["again"]).with_name("checks.md")
            checks.write_text(before, encoding="utf-8")
            status, text = run(check_tables, ["compare", paths["table"], made["again"], str(checks)])
            return status, text, checks.read_text(encoding="utf-8")

    def test_the_same_figures_did_not(self):
        status, text, checks = self.compare(1.0)
        self.assertEqual(status, 0)
        self.assertIn("table: 0 of 3 figures moved, the furthest is 0.00 standard errors", text)
        self.assertIn("| table | 0123456, a processor (avx2) | fedcba9, a processor (avx2) | 3 | 0 | 0.00 |", checks)
        self.assertIn("| unlooked | 0123456, a processor (avx2) |  |  |  |  |\n", checks)

    def test_checks_of_other_tables_stay_but_for_tables_made_anew_since_and_gone_ones(self):
        row = "| unlooked | {}, a processor (avx2) | abcdef0, a processor (avx2) | 7 | 0 | 0.50 |\n"
        self.assertIn(row.format("0123456"), self.compare(1.0, before=row.format("0123456"))[2])
        checks = self.compare(1.0, before=row.format("7654321") + row.format("0123456").replace("unlooked", "gone"))[2]
        self.assertIn("| unlooked | 0123456, a processor (avx2) |  |  |  |  |\n", checks)
        self.assertNotIn("abcdef0", checks)

    def test_more_than_a_standard_error_did(self):
        # `best` is 12.0 ± 1.2 millinats, `quick` 32.0 ± 1.2, `good` 17.0 ± 1.2: 5 % are 0.5, 1.4 and 0.7 errors.
        status, text, checks = self.compare(1.05)
        self.assertEqual(status, 1)
        self.assertIn("table: 1 of 3 figures moved", text)
        self.assertIn("m, 3 bits: quick, test: printed 32.0", text)
        self.assertIn("| 3 | 1 | 1.3", checks)

    def test_a_row_that_is_missing_did(self):
        status, text, _ = self.compare(1.0, ROWS[1:])
        self.assertEqual(status, 1)
        self.assertIn("m, 3 bits: best, test: printed 12.0, not measured now", text)


if __name__ == "__main__":
    unittest.main()
