"""`python -m penstock` is the same as `penstock`."""

import sys

from penstock.cli import main

sys.exit(main())
