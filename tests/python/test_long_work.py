"""Progress, Ctrl-C, exceptions, and the interpreter's lock."""
import _thread
import os
import signal
import subprocess
import sys
import threading
import time

import nibble
import pytest

SCRIPT = """
import sys, nibble, pathlib
demo, output = map(pathlib.Path, sys.argv[1:3])
def progress(stage, done, total, unit):
    if done > 0: print(done, total, flush=True)
try:
    nibble.quantize(demo / "llama-demo", output, nibble.Recipe(bits=6, cluster_dim=2), progress=progress)
    print("finished")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_progress_reaches_the_end(demo, eval_text):
    model = nibble.Model(demo / "gpt2-demo")
    seen = []
    nibble.perplexity(model, text=eval_text, context=64, progress=lambda *update: seen.append(update))
    stage, done, total, unit = seen[-1]
    assert stage == "perplexity" and done == total > 0 and unit == "tokens"
    assert [done for _, done, _, _ in seen] == sorted(done for _, done, _, _ in seen)


def test_an_exception_of_the_callback_ends_the_work(demo, tmp_path):
    told = []

    def refuse(stage, done, total, unit):
        told.append(done)
        raise RuntimeError("enough")

    output, recipe = tmp_path / "out", nibble.Recipe(bits=6, cluster_dim=2)
    with pytest.raises(RuntimeError, match="enough"):
        nibble.quantize(demo / "llama-demo", output, recipe, progress=refuse)
    assert len(told) == 1  # and is not called again
    # The last report may have been made before the caller's thread looked: then all was written, whole.
    if not output.exists():
        assert nibble.quantize(demo / "llama-demo", output, recipe)["tensors"]  # goes on, or starts again
    assert nibble.perplexity(nibble.Model(output), text="The door opened at last.").perplexity > 0
    with pytest.raises(TypeError, match="progress"):
        nibble.perplexity(nibble.Model(demo / "gpt2-demo"), text="The door", progress=3)


def test_ctrl_c_loses_nothing(demo, tmp_path):
    """Interrupted once something is finished; the next run takes it up and ends in the same bytes."""
    undisturbed, output = tmp_path / "undisturbed", tmp_path / "out"
    recipe = nibble.Recipe(bits=6, cluster_dim=2)
    nibble.quantize(demo / "llama-demo", undisturbed, recipe)
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(demo), str(output)], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()  # something is finished
    os.kill(process.pid, signal.SIGINT)
    rest = process.communicate(timeout=300)[0].splitlines()
    assert process.returncode == 0 and rest[-1] in ("interrupted", "finished")
    if rest[-1] == "interrupted":
        assert not output.exists()
        report = nibble.quantize(demo / "llama-demo", output, recipe)
        assert report["tensors"]
    for name in ("model.safetensors", "config.json"):
        assert (output / name).read_bytes() == (undisturbed / name).read_bytes()


@pytest.mark.parametrize("call", [
    lambda model, _: model.logits([1, 2]),
    lambda model, _: model.loglikelihood([([1], [2])]),
    lambda model, other: nibble.compare(other, model, tokens=[1, 2, 3], context=2),
], ids=["logits", "loglikelihood", "compare"])
def test_ctrl_c_ends_the_wait_for_a_turn(demo, call):
    model, other = nibble.Model(demo / "gpt2-demo"), nibble.Model(demo / "gpt2-demo")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are begun without
    taken, free = threading.Event(), threading.Event()
    thread = threading.Thread(target=model.generate, args=([1], 1),
                              kwargs={"on_token": lambda _: taken.set() or not free.wait(20)})
    thread.start()
    taken.wait()
    interrupt = threading.Timer(0.3, _thread.interrupt_main)
    interrupt.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call(model, other)
        assert thread.is_alive()  # it has the model still: nobody's turn came
    finally:
        free.set()
        thread.join()
    assert other.logits([1]).shape == model.logits([1]).shape  # both are free again


def test_others_run_meanwhile(demo, eval_text):
    """A Python thread counts while the library works."""
    model = nibble.Model(demo / "gpt2-demo", "reference")
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begin = time.monotonic()
    nibble.perplexity(model, text=eval_text * 4, context=64)
    seconds = time.monotonic() - begin
    stop.set()
    thread.join()
    # A thread that sleeps 1 ms at a time would count 1000 a second; a tenth of that shows that it was not locked out.
    assert counted[0] > seconds * 100
