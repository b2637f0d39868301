"""Makes ``python -m tuner.daemon`` be a daemon."""

import sys

from tuner.daemon.server import main

sys.exit(main())
