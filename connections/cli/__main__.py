"""`python -m connections.cli` is the command line."""

import sys

from connections.cli import main

sys.exit(main())
