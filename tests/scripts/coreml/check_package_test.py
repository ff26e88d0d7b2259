"""Into which calls a text is cut. Without Core ML, which is not to be had everywhere, nor numpy: nothing here runs a package."""

import pathlib
import sys
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts" / "coreml"))
with unittest.mock.patch.dict(sys.modules, {name: types.ModuleType(name) for name in ("numpy", "mac_package")}):
    import check_package


class Cuts(unittest.TestCase):
    def test_every_cut_is_the_whole_text_in_calls_of_some_tokens(self):
        for window in (False, True):
            for count in range(1, 50):
                for name, sizes in check_package.cuts(count, window).items():
                    with self.subTest(name, window=window, count=count):
                        pieces = list(check_package.pieces(count, sizes))
                        self.assertGreater(min(pieces), 0)
                        self.assertEqual(sum(pieces), count)

    def test_a_window_takes_a_prompt_then_single_tokens(self):
        cuts = check_package.cuts(7, True)
        self.assertEqual(list(check_package.pieces(7, cuts["a prompt, then one by one"])), [3, 1, 1, 1, 1])


if __name__ == "__main__":
    unittest.main()
