"""The first import of Numba, which reads no settings of the current folder.

Numba reads a file ``.numba_config.yaml`` there, when it is imported and whenever it compiles. The folder may
be a stranger's, and the file name a folder of machine code, which would be executed. So this module is
imported before Numba is, wherever the package imports it. A program that has imported Numba itself has read
the file, and goes on reading it; variables of the environment (``NUMBA_CACHE_DIR``) hold in either case.

`_config_fname` (numba.core.config): the file's name, of which Numba asks first whether it exists.
"""

import os
import sys

if "numba" not in sys.modules:
    _exists = os.path.exists
    os.path.exists = lambda path: path != ".numba_config.yaml" and _exists(path)
    try:
        from numba.core import config
    finally:
        os.path.exists = _exists
    config._config_fname = os.devnull  # no regular file, which Numba asks for
