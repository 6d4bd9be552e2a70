# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import sys

from phyai_ros.tools.entry import main

sys.exit(main())
