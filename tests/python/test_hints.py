"""What type checkers see: names and classes that are written down, not made when it runs."""
import ast
import inspect
import pathlib

import nibble
from nibble import _nibble


def test_all_is_written_down():
    tree = ast.parse(inspect.getsource(nibble))
    value = next(node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    names = ast.literal_eval(value)
    assert names == sorted([name for name in dir(_nibble) if not name.startswith("_")] + ["frame"])


def test_the_stub_has_every_name_and_the_bases_of_errors():
    tree = ast.parse(pathlib.Path(nibble.__file__).with_name("_nibble.pyi").read_text(encoding="utf-8"))
    named = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert set(nibble.__all__) - set(named) == {"frame"}
    for name in ("Error", "InvalidArgument", "FormatError", "NumericalError"):
        assert tuple(base.id for base in named[name].bases) == tuple(base.__name__ for base in getattr(nibble, name).__bases__)


def test_frame_is_annotated():
    assert set(nibble.frame.__annotations__) == {"source", "return"}
