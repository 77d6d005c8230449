"""The version, and the configuration to include in a bug report."""

import platform

import numpy as np

from . import _backend

__version__ = "0.1.0"


def show_config() -> dict[str, str | list[str] | dict[str, str]]:
    """Return what to include in a bug report: versions, the machine, and the kernels in use.

    Returns
    -------
    dict
        ``version`` of posenc; the ``backend`` in use; the backends ``available`` on this machine,
        best first; the ``unavailable`` ones, each with the reason; the versions of ``numpy`` and
        ``python``; and ``machine``, the architecture of the processor.

    Examples
    --------
    >>> import posenc
    >>> config = posenc.show_config()
    >>> sorted(config)
    ['available', 'backend', 'machine', 'numpy', 'python', 'unavailable', 'version']
    >>> config["backend"] in config["available"]
    True
    """
    return {
        "version": __version__,
        "backend": _backend.name,
        "available": _backend.available(),
        "unavailable": _backend.unavailable(),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
