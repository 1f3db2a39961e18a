"""The name under which pip installs this package; Python imports it as ``connections``.

The name ``connections`` belongs to another project on the package index, so no message and no page may tell
anybody to install it.
"""

from importlib import metadata

NAME = "affine-connections"  # as in pyproject.toml


def version() -> str:
    """The installed version; "unknown" in an archive or a frozen program that holds the modules alone."""
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return "unknown"


def how_to_install(extra: str) -> str:
    """The command that installs what one of the extras of pyproject.toml needs."""
    return f'pip install "{NAME}[{extra}]"'
