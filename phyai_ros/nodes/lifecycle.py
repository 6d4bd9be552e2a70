# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The shell around every lifecycle node of this package: errors that are said, one teardown path,
start and stop of its process.

rclpy swallows what a transition callback raises, so the log line is written here; an error whose
text is meant for people (ValueError and its kin: parameter, robot, checkpoint) comes without a
traceback, any other with it.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from phyai_ros.nodes import params
from phyai_ros.nodes.entering import EnterError, enter
from phyai_ros.nodes.executor_thread import ExecutorThread
from phyai_ros.nodes.middleware_watch import MiddlewareWatch, end_process

_SUCCESS = TransitionCallbackReturn.SUCCESS
_FAILURE = TransitionCallbackReturn.FAILURE
_FOR_PEOPLE = (ValueError, FileNotFoundError, ImportError)


class NodeFailed(Exception):  # noqa: N818
    """A node that cannot go on; raised in its executor, ends the process with status 1."""


class ManagedNode(LifecycleNode):
    """Subclasses give ``PARAMETERS`` and ``configure``, ``activate``, ``deactivate``, ``teardown``.

    teardown must cope with any half-built state and may be called twice.
    """

    PARAMETERS: tuple[params.Parameter, ...] = ()

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self.failure: str | None = None
        """Why the last transition failed, for people."""
        try:
            params.declare(self, self.PARAMETERS)
        except Exception:
            self.destroy_node()
            raise
        for unused in params.unknown(self, self.PARAMETERS):
            names = ", ".join(sorted(p.name for p in self.PARAMETERS))
            self.get_logger().warning(
                f"parameter '{unused}' is not one of this node's; it has: {names}"
            )

    def configure(self) -> None:
        raise NotImplementedError

    def activate(self) -> None:
        raise NotImplementedError

    def deactivate(self) -> None:
        raise NotImplementedError

    def teardown(self) -> None:
        raise NotImplementedError

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        def work() -> None:
            try:
                self.configure()
            except BaseException:
                self.teardown()
                raise

        return self._guarded("configure", work)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        def work() -> None:
            super(ManagedNode, self).on_activate(state)
            self.activate()

        return self._guarded("activate", work)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        def work() -> None:
            self.deactivate()
            super(ManagedNode, self).on_deactivate(state)

        return self._guarded("deactivate", work)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._guarded("cleanup", self.teardown)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._guarded("shutdown", self.teardown)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._guarded("error", self.teardown)

    def _guarded(self, transition: str, work: Callable[[], None]) -> TransitionCallbackReturn:
        self.failure = None
        try:
            work()
        except _FOR_PEOPLE as error:
            self.failure = str(error)
            self.get_logger().error(f"{transition} failed: {error}")
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
            self.get_logger().error(f"{transition} failed:\n{traceback.format_exc()}")
        return _FAILURE if self.failure is not None else _SUCCESS


def autostart(node: ManagedNode) -> bool:
    """Configure and activate if the node's ``autostart`` says so; False when that failed."""
    if not node.get_parameter("autostart").value:
        return True
    return node.trigger_configure() == _SUCCESS and node.trigger_activate() == _SUCCESS


def run(make_node: Callable[[], ManagedNode], arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one node until it is told to stop, then end the process: status 0 stopped, 1 failed.

    Signals are not left to rclpy: it would invalidate the context first, and a node could neither
    bring its robot to rest nor say goodbye. The executor spins on a thread of its own, so that
    SIGINT and SIGTERM interrupt the main thread at once, also in a long configure.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    try:
        enter(arguments=arguments)
    except EnterError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    watch = MiddlewareWatch(end_process)
    node: ManagedNode | None = None
    spinner: _Spinner | None = None
    status = 0
    try:
        node = make_node()
        if autostart(node):
            spinner = _Spinner(node)
            status = spinner.wait()
        else:
            status = 1
    except params.ParameterError as error:
        print(f"error: {error}", file=sys.stderr)
        status = 1
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        _stop_listening()
        watch.stop()
        if spinner is not None:
            spinner.stop()
        if node is not None:
            node.teardown()
            node.destroy_node()
            # rclpy leaves a lifecycle node's state machine to the garbage collector; until then the
            # DDS participant lives, and with the process its shared memory would stay behind.
            node._state_machine.destroy_when_not_in_use()
        rclpy.try_shutdown()
    _leave(status)


class _Spinner:
    """An executor on a thread; wait() gives the exit status when it ends by itself."""

    def __init__(self, node: ManagedNode) -> None:
        self._node = node
        self._ended = threading.Event()
        self._status = 0
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        self._spinning = ExecutorThread(executor, "executor", self._on_end)

    def _on_end(self, error: BaseException | None) -> None:
        try:
            if error is not None:
                self._status = 1
            if error is not None and not isinstance(error, NodeFailed):  # that one logged why
                told = "".join(traceback.format_exception(error))
                self._node.get_logger().fatal(f"the node ends:\n{told}")
        finally:
            self._ended.set()

    def wait(self) -> int:
        self._ended.wait()
        return self._status

    def stop(self) -> None:
        self._spinning.stop(timeout=1.0)


def _interrupt(number: int, frame: Any) -> None:
    # One stop is enough: Ctrl-C in a terminal reaches a node twice, from the terminal and from the
    # launch that it ends, and the second must not cut short how the first brings the arm to rest.
    _stop_listening()
    raise KeyboardInterrupt


def _stop_listening() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _insist)


_INSISTENT = 5
"""Signals after which a node that is still stopping ends at once."""
_signals = itertools.count(2)  # the first one began the stop


def _insist(number: int, frame: Any) -> None:
    # Ctrl-C comes twice each time: who presses it a third time wants the process gone, whatever
    # holds up its end.
    if next(_signals) >= _INSISTENT:
        os._exit(128 + number)


def _leave(status: int) -> NoReturn:
    """At once: with a policy loaded the interpreter's own end collects garbage for seconds, and an
    inference still running in native code would hold it up altogether."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
