"""The novel in a plain-text file of Project Gutenberg, one paragraph a line: paragraphs.py FILE.txt >NOVEL.txt

As the texts of shared/data/novels are: without the licence around it, without marks of italics, dashes as " - ".
"""

import pathlib
import re
import sys


def novel(text):
    begin = re.search(r"^\*\*\* ?START OF .*$", text, re.MULTILINE)
    end = re.search(r"^\*\*\* ?END OF .*$", text, re.MULTILINE)
    if not begin or not end:
        sys.exit("expected the lines '*** START OF …' and '*** END OF …' of Project Gutenberg: is this its plain text?")
    paragraphs = re.split(r"\n\s*\n", text[begin.end() : end.start()])
    lines = (" ".join(paragraph.split()) for paragraph in paragraphs)
    return "".join(re.sub(r"\s*--+\s*", " - ", line.replace("_", "")).strip() + "\n" for line in lines if line)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    # Carriage returns alone end lines too in some of these files.
    data = pathlib.Path(sys.argv[1]).read_bytes().decode("utf-8", errors="strict")
    sys.stdout.write(novel(data.replace("\r\n", "\n").replace("\r", "\n")))
