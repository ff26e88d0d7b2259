"""What the tests share: the demo's models and texts, which are in the repository."""
import os
import pathlib

import numpy as np
import pytest

ROOT = pathlib.Path(os.environ.get("NIBBLE_ROOT", pathlib.Path(__file__).resolve().parents[2]))


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def demo():
    return ROOT / "datasets" / "demo"


@pytest.fixture(scope="session")
def shared():
    """The large shared data beside the repository; tests that need it are skipped where it is not."""
    path = pathlib.Path(os.environ.get("NIBBLE_SHARED", ROOT.parent / "shared"))
    if not path.exists():
        pytest.skip("../shared is not there")
    return path


@pytest.fixture
def rng(request):
    """Numbers of the test's own; the seed is in the report of a failure."""
    seed = int(os.environ.get("NIBBLE_SEED", "20261122"))
    print(f"NIBBLE_SEED={seed}")
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def calibration(demo, tmp_path_factory):
    """All statistics of the GPT-2 demo model over a few windows."""
    import nibble

    return nibble.calibrate(demo / "gpt2-demo", tmp_path_factory.mktemp("calibration") / "calib.h5",
                            text=demo / "calibration.txt", samples=4, length=64,
                            collect="activations,fisher,hessian,guided-hessian,output-hessian")


@pytest.fixture(scope="session")
def eval_text(demo):
    """The first 6000 characters of the demo's evaluation text."""
    return (demo / "eval.txt").read_text(encoding="utf-8")[:6000]
