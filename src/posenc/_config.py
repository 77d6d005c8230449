"""What is installed here, for a bug report."""

import platform

import numpy as np

from . import _backend

__version__ = "0.1.0"


def show_config() -> dict[str, str | list[str] | dict[str, str]]:
    """What a bug report needs to say: versions, the machine, and the kernels in use.

    Returns
    -------
    dict
        ``version`` of posenc; ``backend`` in use and those ``available`` on this machine, the best
        first; the ``unavailable`` ones, each with the reason; versions of ``numpy`` and ``python``;
        ``machine``, the processor's architecture.

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
