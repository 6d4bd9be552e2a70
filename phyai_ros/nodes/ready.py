# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Waits until lifecycle nodes are active: ``python -m phyai_ros.nodes.ready policy_node ...``.

For launch files: a policy loads as long as it loads, and a delay would be a guess.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

import rclpy
from lifecycle_msgs.msg import State
from lifecycle_msgs.srv import GetState
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

from phyai_ros.nodes.entering import EnterError, enter

_ASK_EVERY = 0.5
_SAY_EVERY = 15.0


def wait(names: Sequence[str]) -> None:
    """Returns when all are active, however long that takes; ends with the ROS context."""
    node = rclpy.create_node(f"phyai_ready_{os.getpid()}")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    clients = {name: node.create_client(GetState, f"{name}/get_state") for name in names}
    said = time.monotonic()
    while clients:
        for name, client in list(clients.items()):
            if client.service_is_ready() and _active(executor, client):
                del clients[name]
        if clients and time.monotonic() - said > _SAY_EVERY:
            said = time.monotonic()
            node.get_logger().info(f"waiting for {', '.join(clients)}")
        executor.spin_once(timeout_sec=_ASK_EVERY if clients else 0.0)
    executor.shutdown()
    node.destroy_node()


def _active(executor: SingleThreadedExecutor, client: rclpy.client.Client) -> bool:
    future = client.call_async(GetState.Request())
    executor.spin_until_future_complete(future, timeout_sec=2.0)
    if not future.done():  # its node loads, or has gone meanwhile
        client.remove_pending_request(future)
        return False
    answer = future.result()
    return answer is not None and answer.current_state.id == State.PRIMARY_STATE_ACTIVE


def main() -> int:
    try:
        enter(signals=True)
    except EnterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    try:
        wait(sys.argv[1:])
    except (KeyboardInterrupt, ExternalShutdownException):
        return 1
    finally:
        rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
