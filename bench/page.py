"""Opens the pages of the bundled recordings in Chromium, without a screen: `make html-check`.

Each is drawn in the light and in the dark, on a narrow screen and on paper, into build/html-check,
to be looked at; `--picture FILE` keeps the top of the first one for the documents. Fails where the browser writes anything to its console, asks for anything else than
the page, or draws nothing. That the console is heard is tried first, on a page with an error.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from gpuwatch.cli import main as gpuwatch

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "html-check"
BROKEN = "<!doctype html><title>t</title><script>throw new Error('heard')</script>"
WAYS = {
    "light": ("--window-size=1100,3400",),
    "dark": ("--window-size=1100,3400", "--blink-settings=preferredColorScheme=0"),
    "narrow": ("--window-size=500,4200",),
}
LEAST_COLOURS = 50
TOP = (0, 0, 1100, 960)
"""Of the page, for the documents."""


def browse(page: Path, *options: str) -> list[str]:
    """Open a page; return what the browser says on its console, and what it asked for besides."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [
                "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                "--no-pdf-header-footer", f"--user-data-dir={profile}", "--enable-logging=stderr", *options,
                page.resolve().as_uri(),
            ],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=True, timeout=120,
        )  # fmt: skip
    return [line for line in done.stderr.splitlines() if re.search(r":CONSOLE[:(]", line)]


def drawn(picture: Path) -> bool:
    """Tell whether a picture shows more than a blank page."""
    with Image.open(picture) as image:
        colours = image.convert("RGB").getcolors(1 << 24)
    return colours is not None and len(colours) >= LEAST_COLOURS


def keep(picture: Path) -> None:
    """Keep the top of a page as a picture of few colours."""
    with Image.open(OUT / "net-loss-light.png") as whole:
        top = whole.convert("RGB").crop(TOP).quantize(64, dither=Image.Dither.NONE)
        top.save(picture, optimize=True)


def main() -> int:
    """Draw all pages; return 1 where something is wrong with one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path)
    kept: Path | None = parser.parse_args().picture
    if shutil.which("chromium") is None:
        print("chromium is not installed: apt-get install chromium", file=sys.stderr)
        return 1
    OUT.mkdir(parents=True, exist_ok=True)
    broken = OUT / "broken.html"
    broken.write_text(BROKEN, "utf-8")
    wrong = (
        []
        if browse(broken, f"--screenshot={OUT / 'broken.png'}")
        else ["an error on a page's console was not heard"]
    )
    for recording in sorted(path for path in (ROOT / "recordings").iterdir() if path.is_dir()):
        page = OUT / f"{recording.name}.html"
        if gpuwatch(["report", str(recording), "--html", str(page)]) != 0:
            return 1
        for way, options in WAYS.items():
            picture = page.with_name(f"{recording.name}-{way}.png")
            wrong += browse(page, f"--screenshot={picture}", *options)
            if not drawn(picture):
                wrong.append(f"{picture}: nothing is drawn")
        paper = page.with_suffix(".pdf")
        wrong += browse(page, f"--print-to-pdf={paper}")
        if not paper.read_bytes().startswith(b"%PDF"):
            wrong.append(f"{paper}: not printed")
    if kept is not None and not wrong:
        keep(kept)
    print("\n".join(wrong) or f"{OUT}: look at the pictures", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
