#!/usr/bin/env python3
"""The tokens that docs/results/ladder.md was trained on, from four collections of English novels.

    pip install numpy tokenizers
    scripts/evidence/ladder_tokens.py --novels DIR --fiction DIR --eltec DIR --eltec-ext DIR -o OUT

The directories are checkouts of computationalstylistics/100_english_novels and /A_Small_Collection_of_British_Fiction, and of
COST-ELTeC/ELTeC-eng and /ELTeC-eng-ext. OUT gets train.u16, validation.u16 (three novels) and novels.txt, which says what each novel
became. The shared test novels, the validation novels and other editions of them (more than a tenth of sampled runs of eight words in
common) are never trained on; of editions of one novel the first is kept. Verse within a paragraph is read with it and again alone. Characters are those of ../shared/data/novels: straight quotes, dashes as " - ", no underscores.
"""
import argparse
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
from tokenizers import Tokenizer

TEI = "{http://www.tei-c.org/ns/1.0}"
NOT_READ = {TEI + "note", TEI + "ref", TEI + "pb", TEI + "figure"}
TEST = ("Conrad_Almayer", "Doyle_Lost", "Forster_View")
VALIDATION = ("ENG19150_Buchan", "ENG19011_Jerome", "ENG19010_Mason")
LEFT_OUT = ("Richardson_Clarissa", "ENG18460_Reynolds")  # very long ones that were not at hand when the models were trained
CHARACTERS = str.maketrans(
    {"“": '"', "”": '"', "‘": "'", "’": "'", "\u00a0": " ", "\ufeff": " ", "…": "...", "_": ""})
SAME_NOVEL = 0.1  # of the sampled runs of eight words of the shorter


def tidied(paragraph):
    return " ".join(re.sub(r"\s*(?:--+|—|―|–)\s*", " - ", paragraph.translate(CHARACTERS)).split())


def plain_novel(path):
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return path.stem, [tidied(paragraph) for paragraph in re.split(r"\n\s*\n", text)]


def words_of(element):
    if element.tag in NOT_READ:
        return ""
    return (element.text or "") + "".join(words_of(child) + (child.tail or "") for child in element)


def tei_novel(path):
    root = ElementTree.fromstring(path.read_bytes().lstrip())
    title, author = (root.find(f".//{TEI}titleStmt/{TEI}{name}").text for name in ("title", "author"))
    parts = (e for e in root.find(f".//{TEI}body").iter() if e.tag in (TEI + "p", TEI + "head", TEI + "l"))
    return f"{path.stem} {author}: {title}", [tidied(words_of(part)) for part in parts]


def require_held_out(novels):
    for prefix in TEST + VALIDATION:
        if not any(label.startswith(prefix) for label, _ in novels):
            sys.exit(f"ladder_tokens.py: no novel's file is named {prefix}…: it could not be held out")
    return novels


def collected(options):
    """(label, text) of every novel: those held out first, so that what overlaps with them is what goes."""
    novels = [plain_novel(path) for folder in (options.novels, options.fiction)
              for path in sorted((folder / "corpus").glob("*.txt")) if not path.stem.startswith(LEFT_OUT)]
    novels += [tei_novel(path) for folder in (options.eltec, options.eltec_ext)
               for path in sorted((folder / "level1").glob("*.xml")) if not path.stem.startswith(LEFT_OUT)]
    novels = [(label, "\n".join(p for p in paragraphs if p) + "\n") for label, paragraphs in novels]
    return sorted(require_held_out(novels), key=lambda novel: 0 if novel[0].startswith(TEST) else 1 if novel[0].startswith(VALIDATION) else 2)


def sampled_runs(text):
    """Checksums of one in sixteen of the runs of eight words."""
    words = re.findall(r"[a-z]+", text.lower())
    sums = (zlib.crc32(" ".join(words[i:i + 8]).encode()) for i in range(len(words) - 7))
    return {value for value in sums if value % 16 == 0}


def without_copies(novels):
    """Yields (label, text, which other novel it is a copy of, or nothing)."""
    seen = []
    for label, text in novels:
        runs = sampled_runs(text)
        shares = ((len(runs & other) / max(1, min(len(runs), len(other))), name) for other, name in seen)
        share, copied = max(shares, default=(0, ""))
        if share > SAME_NOVEL:
            yield label, text, copied
            continue
        seen.append((runs, label))
        yield label, text, ""


def write_tokens(path, tokenizer, novels):
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as file:
        total = 0
        for text in novels:
            ids = np.array([tokenizer.get_vocab_size() - 1, *tokenizer.encode(text).ids], dtype="<u2")
            file.write(ids.tobytes())
            total += len(ids)
    partial.rename(path)
    print(f"{path}: {len(novels)} novels, {total} tokens")


def file_name(label):
    """What novels are sorted by."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", label)[:60] + ".txt"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("novels", "fiction", "eltec", "eltec-ext"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    parser.add_argument("--tokenizer", default="../shared/models/llama-novels/tokenizer.json")
    parser.add_argument("-o", dest="output", required=True, type=pathlib.Path, help="directory to make; must not exist")
    options = parser.parse_args()
    for folder in (options.novels / "corpus", options.fiction / "corpus", options.eltec / "level1", options.eltec_ext / "level1"):
        if not folder.is_dir():
            sys.exit(f"ladder_tokens.py: {folder}: no such directory")
    if not pathlib.Path(options.tokenizer).is_file():
        sys.exit(f"ladder_tokens.py: {options.tokenizer}: no such file")
    if options.output.exists():
        sys.exit(f"ladder_tokens.py: {options.output}: exists already")

    kept = {"train": {}, "validation": {}}
    said = []
    for label, text, copied in without_copies(collected(options)):
        use = "test" if label.startswith(TEST) else "validation" if label.startswith(VALIDATION) else "train"
        said.append(f"{label}: " + (f"left out, a copy of {copied}" if copied else use))
        if use != "test" and not copied:
            kept[use][file_name(label)] = text
    options.output.mkdir(parents=True)
    (options.output / "novels.txt").write_text("\n".join(said) + "\n")
    tokenizer = Tokenizer.from_file(options.tokenizer)
    for use, novels in kept.items():
        write_tokens(options.output / f"{use}.u16", tokenizer, [novels[name] for name in sorted(novels)])


if __name__ == "__main__":
    main()
