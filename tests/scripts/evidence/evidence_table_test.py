"""The tables of docs/results/evidence/: their figures against sums in plain loops, and their verdicts."""

import math
import unittest

from records import error_of_mean, evidence_table, failed, record, table_of

BEST = [0.010, 0.014, 0.012, 0.016]
DRAWS = {0: [0.010, 0.012], 1: [0.011, 0.013], 2: [0.013, 0.015]}


def line_of(table, method):
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {method} |")]
    return [field.strip() for field in line.strip("|").split("|")]


class Figures(unittest.TestCase):
    def test_mean_and_error_of_windows(self):
        mean, error = error_of_mean(BEST)
        field = line_of(table_of([record("3 bits: best", BEST)]), "best")[3]
        value, _, deviation = field.partition(" ± ")
        self.assertAlmostEqual(float(value), 1e3 * mean, delta=0.005)  # half of the last of two digits
        self.assertAlmostEqual(float(deviation), 1e3 * error, delta=0.005)

    def test_a_difference_is_paired_by_window(self):
        # Windows differ by far more than the methods do: only pairs can tell.
        more = [value + step for value, step in zip(BEST, (0.0010, 0.0012, 0.0011, 0.0013))]
        mean, error = error_of_mean([a - b for a, b in zip(more, BEST)])
        field = line_of(table_of([record("3 bits: best", BEST), record("3 bits: gptq", more)]), "gptq")[4]
        self.assertTrue(field.endswith(" than best"), field)
        value, deviation = field.removesuffix(" than best").split(" ± ")
        self.assertAlmostEqual(float(value), 1e3 * mean, delta=0.005)
        self.assertAlmostEqual(float(deviation), 1e3 * error, delta=0.005)
        _, alone = error_of_mean(BEST)
        self.assertGreater(2 * alone, mean)

    def test_a_variant_is_compared_with_the_row_that_it_varies(self):
        rows = [record("3 bits: best", BEST), record("3 bits: windowed", [v + 0.001 for v in BEST]),
                record("3 bits: windowed, without scaling", [v + 0.003 for v in BEST])]
        self.assertTrue(line_of(table_of(rows), "windowed, without scaling")[4].endswith("than windowed"))

    def test_loss_is_over_the_float_model_and_paired(self):
        rows = [record("float", [0.0] * 4, [3.0, 2.0, 4.0, 1.0]), record("3 bits: best", BEST, [3.01, 2.02, 4.01, 1.02])]
        self.assertEqual(line_of(table_of(rows), "best")[4], "+15.00 ± 2.89")

    def test_draws_give_their_mean_and_the_deviation_between_them(self):
        rows = [record(f"3 bits: best, seed {seed}", values) for seed, values in DRAWS.items()]
        means = [(a + b) / 2 for a, b in DRAWS.values()]
        mean, error = error_of_mean(means)
        value, deviation = line_of(table_of(rows), "best")[3].split(" ± ")
        self.assertAlmostEqual(float(value), 1e3 * mean, delta=0.005)
        self.assertAlmostEqual(float(deviation), 1e3 * error * math.sqrt(len(means)), delta=0.005)

    def test_digits_reach_to_the_first_of_the_error(self):
        self.assertEqual(evidence_table.millinats(1.234567e-3, 4.2e-8), "1.23457 ± 0.00004")
        self.assertEqual(evidence_table.millinats(0.25, 0.03), "250.0 ± 30.0")


class Verdicts(unittest.TestCase):
    def test_what_counts_as_undecided_of_few_draws(self):
        # Student's t of n - 1 degrees of freedom where P(|T| > t) = P(|normal| > 2) = 0.0455: printed tables of t.
        for draws, within in ((2, 13.968), (3, 4.527), (4, 3.307), (5, 2.869), (10, 2.320)):
            self.assertAlmostEqual(evidence_table.undecided_within(draws), within, delta=5e-4, msg=f"{draws} draws")
        self.assertAlmostEqual(evidence_table.undecided_within(10001), 2.0, delta=1e-3)

    def test_two_standard_errors_decide(self):
        # Differences of mean 1 and these errors: of the values 1 ± s, 1 ∓ s, …, four of them, s / sqrt(3).
        for spread, level in ((0.8, False), (0.9, True)):
            error = spread / math.sqrt(3)
            self.assertEqual(2 * error > 1, level)
            other = [b + 1e-3 * (1 + spread * sign) for b, sign in zip(BEST, (1, -1, 1, -1))]
            field = line_of(table_of([record("3 bits: best", BEST), record("3 bits: gptq", other)]), "gptq")[4]
            self.assertEqual(field.endswith("undecided"), level, field)

    def test_three_draws_need_more_than_two_standard_errors(self):
        # Differences of the draws 0.7, 1.0, 1.3 millinats: 5.8 errors decide; 0.6, 1.0, 1.4: 4.3 do not, of 4.53.
        for step, level in ((0.3e-3, False), (0.4e-3, True)):
            rows = [record(f"3 bits: best, seed {seed}", values) for seed, values in DRAWS.items()]
            rows += [record(f"3 bits: gptq, seed {seed}", [v + 1e-3 + (seed - 1) * step for v in values]) for seed, values in DRAWS.items()]
            self.assertEqual(line_of(table_of(rows), "gptq")[4].endswith("undecided"), level)

    def test_best_that_is_beaten_is_named_as_such(self):
        lower, level = [v - 0.002 for v in BEST], [v + s for v, s in zip(BEST, (0.001, -0.001, 0.001, -0.001))]
        lines = table_of([record("3 bits: best", BEST), record("3 bits: gptq", lower), record("3 bits: awq", level),
                          record("3 bits: wide", lower, bits=3.5)]).splitlines()
        self.assertTrue(lines[-1].endswith(": m, 3 bits: gptq."), lines[-1])  # more bits than `best`, or level with it, are not
        lines = table_of([record("2 bits: best-2-bit", lower), record("2 bits: best", BEST)]).splitlines()
        self.assertTrue(lines[-1].startswith("Methods of no more bits than `best-2-bit`") and lines[-1].endswith(": none."), lines[-1])
        self.assertIn(" than best-2-bit |", lines[-3])
        lines = table_of([record("2 bits: best-2-bit", BEST), record("3 bits: best", BEST)]).splitlines()
        self.assertTrue(lines[-1].startswith("Methods of no more bits than `best-2-bit` or `best` whose"), lines[-1])
        lines = table_of([record("3 bits: best", BEST), record("3 bits: awq", level)]).splitlines()
        self.assertTrue(lines[-1].endswith(": none."), lines[-1])

    def test_rows_stand_by_the_divergence_of_test_text(self):
        rows = [record("3 bits: a", [0.3, 0.3]), record("3 bits: b", [0.1, 0.1]),
                record("3 bits: a", [0.1, 0.1], evaluation="validation"), record("3 bits: b", [0.3, 0.3], evaluation="validation")]
        table = table_of(rows)
        self.assertLess(table.index("| b |"), table.index("| a |"))


class Gaps(unittest.TestCase):
    def test_failed_cells_and_rows_without_some_text_are_told(self):
        table = table_of([record("3 bits: best", BEST), record("3 bits: best", BEST, evaluation="validation"),
                          record("3 bits: gptq", BEST), failed("3 bits: awq")])
        self.assertIn("**1 cells failed and are missing.**", table)
        self.assertIn("Not measured in this run, in whole or in part: m, 3 bits: gptq; m, 3 bits: awq.", table)

    def test_cells_of_two_programs_or_of_none_make_no_table(self):
        best = record("3 bits: best", BEST)
        for other in ({"commit": "fedcba987654"}, {"processor": "another"}, {"instruction_set": "avx512"}):
            with self.subTest(other), self.assertRaisesRegex(SystemExit, f"several kinds of {next(iter(other))};"):
                table_of([best, record("3 bits: gptq", BEST, **other)])
        for records, why in (([record("3 bits: best", BEST, commit="0123456789ab-1a2b3c4d")], "changes that no commit has"),
                             ([failed("3 bits: best")], "no cells"), ([best, best], "two cells '3 bits: best'")):
            with self.subTest(why), self.assertRaisesRegex(SystemExit, why):
                table_of(records)


if __name__ == "__main__":
    unittest.main()
