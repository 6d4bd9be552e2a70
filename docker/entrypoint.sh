#!/bin/bash
# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
# Any command with ROS 2 and this package in place.
. /opt/ros/jazzy/setup.bash
. /ws/install/setup.bash
. /ws/venv/bin/activate
exec "$@"
