"""Where PyInstaller finds its hook for posenc, by the entry point in pyproject.toml."""

import os


def get_hook_dirs() -> list[str]:
    return [os.path.dirname(__file__)]
