"""`python -m sdlg.cli`."""

import sys

from . import main

sys.exit(main())
