"""Put the standard input between the marks `<!-- NAME -->` and `<!-- /NAME -->` of a page.

python bench/marks.py PAGE NAME < TEXT
"""

import sys
from pathlib import Path


def replaced(page: str, name: str, text: str) -> str:
    """The page with `text` between its two marks of this name."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"the page must have {begin} and {end}, once each")
    before, rest = page.split(begin)
    after = rest.split(end)[1]
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    page = path.read_text(encoding="utf-8")
    path.write_text(replaced(page, sys.argv[2], sys.stdin.read().strip()), encoding="utf-8")
