"""Takes pictures of the README and of the documentation's first page, in the widths of a desktop and of a phone.

    make docs && .venv/bin/python tools/page_pictures.py --out build/pictures

Needs Chromium (Debian: apt-get install chromium) and markdown-it-py. The README is shown by a style of its own, which
resembles that of hosting sites. Knows nothing of what the pages say.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from markdown_it import MarkdownIt

ROOT = pathlib.Path(__file__).resolve().parents[1]
SIZES = {"wide": (1280, 3400), "narrow": (420, 6000)}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
STYLE = """
body { max-width: 1012px; margin: 0 auto; padding: 24px; font: 16px/1.5 system-ui, sans-serif; }
pre { background: #f6f8fa; padding: 16px; overflow: auto; font-size: 85%; }
table { border-collapse: collapse; display: block; overflow: auto; }
td, th { border: 1px solid #d1d9e0; padding: 6px 13px; }
img { max-width: 100%; }
"""


def readme_page(text: str) -> str:
    """The README as a page whose links and pictures are those of the checkout."""
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    return (
        f'<!doctype html><meta charset="utf-8"><base href="{ROOT.as_uri()}/">'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>{body}'
    )


def take(browser: str, page: pathlib.Path, out: pathlib.Path, size: tuple[int, int]) -> None:
    options = ["--headless", "--disable-gpu", "--hide-scrollbars", f"--window-size={size[0]},{size[1]}"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")  # Chromium refuses to run as root with it
    command = [browser, *options, f"--screenshot={out}", page.as_uri()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if ran.returncode != 0 or not out.is_file():
        sys.exit(f"{browser} took no picture of {page}: {ran.stderr[-2000:]}")
    print(out)


def main() -> None:
    parser = argparse.ArgumentParser(description="Takes pictures of the README and of the documentation's first page.")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "pictures", help="a directory")
    out = parser.parse_args().out.resolve()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    home = ROOT / "docs" / "_build" / "index.html"
    if browser is None:
        sys.exit(f"no browser: tried {', '.join(BROWSERS)}; on Debian: apt-get install chromium")
    if not home.is_file():
        sys.exit(f"{home} is not there: run `make docs` first")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        readme = pathlib.Path(folder) / "readme.html"
        readme.write_text(readme_page((ROOT / "README.md").read_text(encoding="utf-8")), encoding="utf-8")
        for width, size in SIZES.items():
            take(browser, readme, out / f"readme-{width}.png", size)
            take(browser, home, out / f"home-{width}.png", size)


if __name__ == "__main__":
    main()
