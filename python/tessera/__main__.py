# SPDX-License-Identifier: Apache-2.0
"""python -m tessera"""

import sys

from ._cli import main

sys.exit(main())
