# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A place of its own in the ROS graph for what is no node of the system: a tool, a benchmark."""

from __future__ import annotations

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter

from phyai_ros.nodes.entering import EnterError, enter, why
from phyai_ros.nodes.executor_thread import ExecutorThread

_PATIENCE = 2.0
"""Seconds that a callback which is at work when all ends may take."""


class Participant:
    """A node, what spins it, and a context that both have to themselves, in ROS_DOMAIN_ID's domain.
    A context manager closes it.

    The command line's words are the tool's, none are ROS's. Signals are not left to rclpy either:
    Ctrl-C is a KeyboardInterrupt where the tool stands, and it closes what it opened in its own
    order. rosout: whether others hear what the node logs. Raises EnterError.
    """

    def __init__(self, name: str, *, rosout: bool = True, use_sim_time: bool = False) -> None:
        self._context = Context()
        enter(self._context, [])
        self._spinning: ExecutorThread | None = None
        try:
            self.node = rclpy.create_node(
                name,
                context=self._context,
                enable_rosout=rosout,
                parameter_overrides=[Parameter("use_sim_time", value=use_sim_time)],
            )
            self.executor = SingleThreadedExecutor(context=self._context)
            self.executor.add_node(self.node)
        except rclpy._rclpy_pybind11.RCLError as error:
            self._context.try_shutdown()
            raise EnterError(why(error)) from None
        except BaseException:
            self._context.try_shutdown()
            raise

    def spin(self, seconds: float) -> None:
        """One callback, waited for ``seconds`` at the most."""
        self.executor.spin_once(timeout_sec=seconds)

    def start(self) -> None:
        """Spin on a thread from here on, until closed; the node is that thread's then."""
        self._spinning = ExecutorThread(self.executor, self.node.get_name())

    def close(self) -> None:
        if self._spinning is None:
            self.executor.shutdown()
        else:
            self._spinning.stop(_PATIENCE)
        self.node.destroy_node()
        self._context.try_shutdown()

    def __enter__(self) -> Participant:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
