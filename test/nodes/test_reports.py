# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Public reports about what goes over the wire, on the smallest input that shows the fault. Those
about the handoff are in test/control/test_reports.py; docs/reports.md lists them all."""

from types import SimpleNamespace

import numpy as np
import pytest
from sensor_msgs.msg import Image, JointState
from trajectory_msgs.msg import JointTrajectory

from phyai_ros.nodes import convert, images, interfaces
from phyai_ros.nodes.frame_source import CameraTopic
from phyai_ros.nodes.joint_buffer import JointBuffer
from phyai_ros.nodes.joint_trajectory import fill_trajectory
from phyai_ros.nodes.synchronizer import SynchronizedCameras
from phyai_ros.sim.trajectory_player import TrajectoryPlayer, TrajectoryRefused


def times(message):
    return [convert.stamp_to_ns(point.time_from_start) / 1e9 for point in message.points]


def trajectory(start, goal, rows=4):
    points = np.linspace(start, goal, rows)[:, None]
    velocities = np.gradient(points[:, 0], 0.05)[:, None]
    velocities[-1] = 0.0
    return fill_trajectory(JointTrajectory(), ("a",), points, velocities, 0.05)


def test_moveit2_287_and_irc_109_a_trajectory_starts_now_and_its_times_rise():
    """moveit2#287, iRC_ROS#109: "non zero start time that ends in the past", a point at time 0.
    -> Stamp 0, which means now on any clock; first point after 0; strictly rising; at rest at its
    end, as joint_trajectory_controller demands."""
    message = trajectory(0.0, 0.1)
    assert convert.stamp_to_ns(message.header.stamp) == 0
    assert times(message)[0] == pytest.approx(0.05)
    assert (np.diff(times(message)) > 0).all()
    assert list(message.points[-1].velocities) == [0.0]
    controller = TrajectoryPlayer(("a",))
    controller.start(np.zeros(1))
    points = message.points
    controller.accept(
        message.joint_names,
        times(message),
        [p.positions for p in points],
        [p.velocities for p in points],
    )
    with pytest.raises(TrajectoryRefused, match="not strictly increasing"):
        controller.accept(("a",), [0.05, 0.05], [[0.0], [0.1]], [[0.0], [0.0]])


def test_ur_driver_1258_a_new_trajectory_takes_over_without_a_step():
    """UR driver #1258, moveit2#2136: streaming trajectories jerk. -> The next one begins with the
    command of the tick it is sent in, so what the controller is at never steps."""
    controller = TrajectoryPlayer(("a",))
    controller.start(np.zeros(1))
    path, goal = [], np.linspace(0.0, 0.5, 21)
    for tick in range(12):
        message = trajectory(goal[tick + 1], goal[tick + 5], 5)
        controller.accept(
            message.joint_names,
            times(message),
            [p.positions for p in message.points],
            [p.velocities for p in message.points],
        )
        path += [controller.advance(0.01).item() for _ in range(5)]
    assert np.abs(np.diff(path)).max() < 2.5 * 0.5 / 100


@pytest.mark.parametrize("topic", ["/camera/scene/image_raw", "/camera/wrist/image_raw"])
def test_lerobot_652_the_control_loop_hears_no_camera(topic):
    """lerobot#652, #1714, #1356: cameras slow the control loop. -> handoff_node subscribes to no
    image at all, so none can."""
    from phyai_ros import robots

    robot = robots.load("ur10e")
    heard = interfaces.interfaces(robot, ["handoff_node"])["handoff_node"].subscribe
    assert topic not in heard
    assert "/joint_states" in heard


def test_message_filters_169_a_callback_that_cannot_use_a_set_never_raises():
    """message_filters#169: an exception in the callback leaves the filter's lock held for ever, and
    every later message blocks. -> Nothing leaves the callback, whatever the set holds."""
    refused = []
    cameras = SynchronizedCameras.__new__(SynchronizedCameras)
    cameras._cameras = (CameraTopic("scene", "/scene"),)
    cameras._source = SimpleNamespace(now=lambda: 0.0)
    cameras._refusals = {
        "scene": SimpleNamespace(refuse=lambda kind, *_, **__: refused.append(kind))
    }
    cameras._sets = 0
    for message in (Image(encoding="16UC1", height=1, width=1, step=2), None, object(), "x"):
        cameras.deliver(message)
    cameras.deliver()
    cameras.deliver(None, None, None)
    assert cameras._sets == 6
    assert len(refused) == 5


@pytest.mark.parametrize("names", [["c", "a", "b"], ["b", "c", "a", "extra"], ["a", "b", "c"]])
def test_groot_406_and_ros2_controllers_159_joint_order_may_change_between_messages(names):
    """Isaac-GR00T#406, ros2_controllers#159, PR#1572, UR ROS1 #619, kuka_drivers#254: by name, each
    message anew."""
    value = {"a": 1.0, "b": 2.0, "c": 3.0, "extra": 9.0}
    buffer = JointBuffer(("a", "b", "c"), 1.0)
    for shift in range(len(names)):
        order = names[shift:] + names[:shift]
        message = JointState(name=order, position=[value[n] for n in order])
        buffer.add(convert.joints_from_message(message), 0.0)
        assert buffer.positions(0.0).tolist() == [1.0, 2.0, 3.0]


def test_strands_1099_a_message_that_lacks_a_joint_shifts_nothing():
    """strands robots#1099, ROBOTIS joint_state2tensor_array: the values after an absent joint move
    one place. -> It is unknown, the others keep their own."""
    buffer = JointBuffer(("a", "b", "c"), 1.0)
    buffer.add(convert.joints_from_message(JointState(name=["a", "c"], position=[1.0, 3.0])), 0.0)
    assert buffer.positions(0.0) is None
    assert buffer.trouble(0.0) == "no position yet of b"
    with pytest.raises(convert.MessageError, match="3 joint names but 2 positions"):
        convert.joints_from_message(JointState(name=["a", "b", "c"], position=[1.0, 3.0]))


def test_cv_bridge_27_a_step_that_is_no_multiple_of_a_pixel_does_not_shear():
    """vision_opencv#27, usb_cam#288: width 3, step 10: the second row began at byte 9. -> Rows
    begin where the step says."""
    data = np.arange(20, dtype=np.uint8)
    pixels = images.rgb_view(images.PixelLayout(2, 3, "rgb8", 10), data)
    assert pixels[1, 0].tolist() == [10, 11, 12]
    with pytest.raises(images.ImageError, match="step 3840 is less than a row"):
        images.rgb_view(images.PixelLayout(1, 1920, "rgb8", 3840), np.zeros(3840, np.uint8))
