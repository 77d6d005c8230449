"""What PyInstaller does not see: the names of the kernels, and of families, are made at run time."""

from PyInstaller.utils.hooks import collect_submodules

hiddenimports = collect_submodules("posenc", lambda name: "._pyinstaller" not in name)
