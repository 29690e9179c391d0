"""`python -m docs.generate`, or `make docs`."""

from __future__ import annotations

from docs.generate import gateway
from docs.generate.pages import FOLDER, pages


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    gateway.FILE.write_text(gateway.text())


if __name__ == "__main__":
    main()
