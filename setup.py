# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``pip install .``: the engine, control and tools where there is no ROS. With ROS: colcon."""

from setuptools import setup

setup()
