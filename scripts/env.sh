# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
# Source it (bash, zsh): `. scripts/env.sh`. Then python, phyai-ros, pytest and colcon are those of
# .venv, with ROS 2, the messages and this tree's sources importable. Made by `make msgs`.
_phyai_root="$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")/.." && pwd)"
if [ ! -f "$_phyai_root/.build/messages.sha256" ]; then
  echo "phyai_ros: nothing is built yet; run 'make msgs' first" >&2
fi
export VIRTUAL_ENV="$_phyai_root/.venv"
export PATH="$VIRTUAL_ENV/bin:$PATH"
export AMENT_PREFIX_PATH="$_phyai_root/.build/install:$VIRTUAL_ENV"
# Camera images do not fit Fast DDS's default shared-memory segment; a profile of yours is kept.
export FASTDDS_DEFAULT_PROFILES_FILE="${FASTDDS_DEFAULT_PROFILES_FILE:-$_phyai_root/config/fastdds.xml}"
unset _phyai_root
