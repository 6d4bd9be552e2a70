# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ObservationAligner: what makes a frame, and the name of every reason there is none."""

import numpy as np
import pytest

from phyai_ros.control.align import AlignConfig, CameraStream, NotReady, ObservationAligner, Reason

T = 100.0


def image(value=0):
    return np.full((24, 32, 3), value, np.uint8)


def make(cameras=("scene", "wrist"), joints=("a", "b"), **config):
    return ObservationAligner([CameraStream(c) for c in cameras], joints, AlignConfig(**config))


def refusal(aligner, now, **kwargs):
    with pytest.raises(NotReady) as caught:
        aligner.assemble(now, **kwargs)
    return caught.value.reason, caught.value.stream


def ready(**config):
    aligner = make(**config)
    aligner.add_image("scene", T, image(1))
    aligner.add_image("wrist", T, image(2))
    aligner.add_joints("js", T - 0.01, {"a": 1.0, "b": 2.0})
    aligner.add_joints("js", T + 0.01, {"a": 3.0, "b": 6.0})
    return aligner


def test_joints_are_interpolated_to_the_anchor_by_name():
    frame = ready().assemble(T + 0.02)
    assert frame.stamp == T
    assert frame.joints == pytest.approx({"a": 2.0, "b": 4.0})
    assert frame.images["scene"][0, 0, 0] == 1
    assert frame.images["wrist"][0, 0, 0] == 2
    assert frame.wait == pytest.approx(0.02)
    assert frame.skew == 0.0
    assert frame.ages["a"] == pytest.approx(0.01)
    assert frame.ages["wrist"] == pytest.approx(0.02)


def test_joint_order_and_extra_joints_do_not_matter():
    """Isaac-GR00T#406, ros2_controllers#159, UR ROS1 #619, kuka_drivers#254: names, not places."""
    aligner = make()
    aligner.add_image("scene", T, image())
    aligner.add_image("wrist", T, image())
    aligner.add_joints("js", T, {"extra": 9.0, "b": 2.0, "a": 1.0})
    assert dict(aligner.assemble(T).joints) == {"a": 1.0, "b": 2.0}


def test_newest_complete_set_wins_over_a_newer_lone_image():
    aligner = ready()
    aligner.add_image("scene", T + 0.033, image(9))
    frame = aligner.assemble(T + 0.035)
    assert frame.stamp == T
    assert frame.images["scene"][0, 0, 0] == 1
    aligner.add_image("wrist", T + 0.034, image(8))
    frame = aligner.assemble(T + 0.036)
    assert frame.stamp == T + 0.034
    assert frame.skew == pytest.approx(0.001)


def test_never_came_names_the_camera_and_the_joint():
    aligner = make()
    aligner.add_image("scene", T, image())
    assert refusal(aligner, T) == (Reason.NEVER_CAME, "wrist")
    aligner.add_image("wrist", T, image())
    assert refusal(aligner, T) == (Reason.NEVER_CAME, "a")


def test_one_stopped_camera_is_named_and_the_call_does_not_wait():
    """lerobot#652, #1714, #1356; livekit/portal#69: one camera must not freeze the loop."""
    aligner = ready()
    for k in range(1, 20):
        aligner.add_image("scene", T + k / 30, image(k))
        aligner.add_joints("js", T + k / 30, {"a": 0.0, "b": 0.0})
    assert refusal(aligner, T + 0.64) == (Reason.TOO_OLD, "wrist")


def test_skew_names_the_camera_that_is_behind():
    aligner = make(max_skew=0.02)
    aligner.add_image("wrist", T, image())
    aligner.add_image("scene", T + 0.05, image())
    aligner.add_joints("js", T, {"a": 0.0, "b": 0.0})
    assert refusal(aligner, T + 0.06) == (Reason.SKEW, "wrist")


def test_a_joint_that_no_message_names_is_refused_by_name():
    """strands robots#1099, joint_state2tensor_array: an absent joint must not shift the rest."""
    aligner = make(joints=("a", "b", "c"))
    aligner.add_image("scene", T, image())
    aligner.add_image("wrist", T, image())
    aligner.add_joints("js", T, {"a": 0.0, "b": 0.0})
    with pytest.raises(NotReady, match=r"c: joint_missing.*js.*'a', 'b'"):
        aligner.assemble(T)


def test_names_without_positions_are_not_said_to_be_absent():
    """A driver of velocities or efforts alone: its joints are named, and nowhere."""
    aligner = make(joints=("a",))
    aligner.add_image("scene", T, image())
    aligner.add_image("wrist", T, image())
    aligner.add_joints("js", T, {})
    with pytest.raises(NotReady, match=r"no joint state has a position of it; .*\{'js': \[\]\}"):
        aligner.assemble(T)


def test_a_joint_that_stops_coming_is_refused_by_its_own_age():
    aligner = ready()
    for k in range(1, 40):
        aligner.add_joints("js", T + 0.01 * k, {"a": 0.0})
    aligner.add_image("scene", T + 0.38, image())
    aligner.add_image("wrist", T + 0.38, image())
    assert refusal(aligner, T + 0.39) == (Reason.TOO_OLD, "b")


def test_joints_from_two_publishers_are_merged_with_their_own_ages():
    """strands robots#1099 / blue_interface#8: arm and gripper on alternating messages."""
    aligner = make()
    aligner.add_image("scene", T, image())
    aligner.add_image("wrist", T, image())
    aligner.add_joints("/arm", T - 0.02, {"a": 1.0})
    aligner.add_joints("/gripper", T - 0.01, {"b": 2.0})
    frame = aligner.assemble(T)
    assert dict(frame.joints) == {"a": 1.0, "b": 2.0}
    assert frame.ages["a"] == pytest.approx(0.02)
    assert frame.ages["b"] == pytest.approx(0.01)


def test_a_second_publisher_of_the_same_joint_is_counted_and_takes_over_only_after_silence():
    aligner = ready()
    aligner.add_joints("/other", T + 0.02, {"a": 50.0})
    assert aligner.assemble(T + 0.02).joints["a"] == pytest.approx(2.0)
    assert aligner.counters.foreign_joints["a@/other"] == 1
    aligner.add_joints("/other", T + 0.5, {"a": 50.0, "b": 60.0})
    aligner.add_image("scene", T + 0.5, image())
    aligner.add_image("wrist", T + 0.5, image())
    assert aligner.assemble(T + 0.5).joints["a"] == 50.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_non_finite_joint_refuses_until_a_good_one_comes(bad):
    aligner = ready()
    aligner.add_joints("js", T + 0.02, {"a": bad, "b": 0.0})
    assert refusal(aligner, T + 0.02) == (Reason.NON_FINITE, "a")
    aligner.add_joints("js", T + 0.03, {"a": 0.0, "b": 0.0})
    assert np.isfinite(list(aligner.assemble(T + 0.03).joints.values())).all()


def test_zero_stamps_are_named():
    aligner = make()
    aligner.add_image("scene", 0.0, image())
    assert refusal(aligner, T) == (Reason.ZERO_STAMP, "scene")
    assert aligner.dropped()["scene"]["zero_stamp"] == 1
    aligner.add_image("scene", T, image())
    aligner.add_image("wrist", T, image())
    aligner.add_joints("js", 0.0, {"a": 1.0, "b": 1.0})
    assert refusal(aligner, T) == (Reason.ZERO_STAMP, "a")


def test_camera_that_repeats_its_stamp_is_frozen():
    aligner = ready()
    for _ in range(10):
        aligner.add_image("wrist", T, image(3))
    for k in range(1, 10):
        aligner.add_image("scene", T + k / 30, image(k))
        aligner.add_joints("js", T + k / 30, {"a": 0.0, "b": 0.0})
    assert refusal(aligner, T + 0.31) == (Reason.FROZEN, "wrist")
    assert aligner.dropped()["wrist"]["repeated_stamp"] == 10


def run(aligner, seconds, motion):
    for k in range(round(seconds * 30)):
        at = T + k / 30
        aligner.add_joints("js", at, {"a": motion * k, "b": 0.0})
        aligner.add_image("scene", at, image(k))
        aligner.add_image("wrist", at, image(7))
    return at


def test_unchanged_pixels_are_frozen_only_while_the_arm_moves():
    moving, still = make(), make()
    assert refusal(moving, run(moving, 1.0, 0.01)) == (Reason.FROZEN, "wrist")
    assert still.assemble(run(still, 1.0, 0.0)).images["wrist"][0, 0, 0] == 7


def test_a_robot_that_was_gone_and_stands_elsewhere_has_no_frozen_camera():
    """Its first pictures come before its first joint states: what was known of the joints until
    then is no posture in which the pictures did not change. It stood still for good: no frame,
    so no motion, so no other picture."""
    aligner = make()
    gone = run(aligner, 1.0, 0.0)
    for k in range(60):
        at = gone + 3.0 + k / 30
        aligner.add_image("scene", at, image(11))
        aligner.add_image("wrist", at, image(12))
        if k > 0:
            aligner.add_joints("js", at, {"a": 0.5, "b": -0.5})
    assert aligner.assemble(at).joints["a"] == 0.5


def test_one_changed_pixel_is_alive():
    aligner = make()
    last = run(aligner, 1.0, 0.01)
    alive = image(7)
    alive[3, 5, 1] = 8
    aligner.add_image("wrist", last + 0.001, alive)
    aligner.assemble(last + 0.002)


def test_time_going_back_clears_everything_and_is_counted():
    """message_filters#169, ros_comm#1308/#1518: a looped bag must not leave stale future samples
    that evict every new one."""
    aligner = ready()
    back = T - 50.0
    aligner.add_image("scene", back, image(5))
    assert aligner.counters.time_went_back == 1
    assert refusal(aligner, back) == (Reason.NEVER_CAME, "wrist")
    aligner.add_image("wrist", back, image(6))
    aligner.add_joints("js", back, {"a": 7.0, "b": 8.0})
    frame = aligner.assemble(back + 0.001)
    assert frame.stamp == back
    assert frame.joints["a"] == 7.0
    assert aligner.counters.time_went_back == 1


def test_the_clock_going_back_clears_too():
    aligner = ready()
    aligner.assemble(T + 0.02)
    assert refusal(aligner, T - 10.0) == (Reason.NEVER_CAME, "scene")
    assert aligner.counters.time_went_back == 1


def test_stamps_ahead_of_the_clock_are_not_used():
    aligner = make()
    aligner.add_image("scene", T + 10.0, image())
    assert refusal(aligner, T) == (Reason.FUTURE_STAMP, "scene")


def test_a_late_message_is_put_in_its_place():
    aligner = ready()
    aligner.add_joints("js", T, {"a": 100.0, "b": 2.0})
    assert aligner.assemble(T + 0.02).joints["a"] == 100.0
    assert aligner.counters.time_went_back == 0


def test_not_before_waits_for_a_newer_set():
    aligner = ready()
    assert refusal(aligner, T + 0.02, not_before=T + 0.001)[0] is Reason.NOT_YET
    assert aligner.assemble(T + 0.02, not_before=T).stamp == T


def test_buffers_are_bounded():
    aligner = make(joint_depth=16)
    for k in range(1000):
        at = T + k / 30
        aligner.add_image("scene", at, image(k % 200))
        aligner.add_joints("js", at, {"a": 0.0, "b": 0.0})
    assert len(aligner._cameras["scene"].samples) == 8
    assert len(aligner._joints["a"].samples) == 16


def test_optional_camera_is_left_out_when_its_image_of_that_moment_is_too_old():
    """Its newest is young, but of after the others; the one before it would be used."""
    cameras = [CameraStream("scene", 0.2), CameraStream("extra", 0.05, optional=True)]
    for now, there in ((T + 0.04, True), (T + 0.09, False)):
        aligner = ObservationAligner(cameras, ["a"])
        aligner.add_joints("js", T, {"a": 0.0})
        aligner.add_image("scene", T, image(1))
        aligner.add_image("extra", T - 0.005, image(2))
        aligner.add_image("extra", T + 0.03, image(3))
        frame = aligner.assemble(now)
        assert ("extra" in frame.images) == there
        assert set(frame.images) <= {"scene", "extra"}
        assert frame.stamp == T


def test_optional_camera_is_left_out_when_it_is_late():
    aligner = ObservationAligner(
        [CameraStream("scene"), CameraStream("extra", optional=True)], ["a"]
    )
    aligner.add_image("scene", T, image())
    aligner.add_joints("js", T, {"a": 0.0})
    assert set(aligner.assemble(T).images) == {"scene"}
    aligner.add_image("extra", T, image())
    assert set(aligner.assemble(T).images) == {"scene", "extra"}


def test_a_failing_caller_does_not_leave_the_aligner_locked():
    """message_filters#169: an exception in a callback must not block the next message."""
    aligner = make()
    with pytest.raises(ValueError, match=r"expected one of .*scene.*wrist"):
        aligner.add_image("ego_view", T, image())
    with pytest.raises(NotReady):
        aligner.assemble(T)
    aligner.add_image("scene", T, image())


def test_refusals_are_counted_by_reason_and_stream():
    aligner = make()
    for _ in range(3):
        refusal(aligner, T)
    assert aligner.counters.refused == {"never_came:scene": 3}


def twice(apart, seconds=1.0, speed=2.0):
    """A joint at 100 Hz that moves at its limit, and a second publisher that says it is elsewhere,
    half a period later on the same topic. The aligner's answers, once a camera period."""
    aligner = make(joint_speed={"a": speed, "b": speed})
    told = []
    for k in range(round(100 * seconds)):
        at = T + k / 100
        true = speed * k / 100
        aligner.add_joints("js", at, {"a": true, "b": 0.0})
        if apart is not None:
            aligner.add_joints("js", at + 0.005, {"a": true + apart, "b": 0.0})
        if k % 5 == 0:
            aligner.add_image("scene", at, image(k % 200))
            aligner.add_image("wrist", at, image(k % 199))
            try:
                told.append(aligner.assemble(at + 0.006).joints["a"])
            except NotReady as refusal:
                told.append((refusal.reason, refusal.stream, "two publishers" in str(refusal)))
    return told[1:]


@pytest.mark.parametrize("apart", [0.2, -1.5, 57.0])
def test_a_joint_that_two_publishers_put_in_two_places_is_refused_by_name(apart):
    """Nothing tells which of the two is true, and a chunk of relative actions would be anchored at
    either."""
    assert set(twice(apart)) == {(Reason.JUMPING, "a", True)}


def test_a_joint_at_its_fastest_and_two_publishers_that_agree_are_fine():
    assert all(isinstance(value, float) for value in twice(None))
    assert all(isinstance(value, float) for value in twice(0.001))


def test_an_arm_that_was_set_elsewhere_is_believed_again_after_a_moment():
    """A simulator's reset."""
    aligner = make(joint_speed={"a": 2.0})
    last = run(aligner, 0.3, 0.0)
    for k in range(60):
        at = last + 0.02 + k / 100
        aligner.add_joints("js", at, {"a": 3.0, "b": 3.0})
        aligner.add_image("scene", at, image(k))
        aligner.add_image("wrist", at, image(k + 60))
        if k == 5:
            with pytest.raises(NotReady, match="set elsewhere") as caught:
                aligner.assemble(at)
            assert (caught.value.reason, caught.value.stream) == (Reason.JUMPING, "a")
            assert "publishers" not in str(caught.value)
    assert aligner.assemble(at).joints["a"] == 3.0


@pytest.mark.parametrize(("ahead", "refused"), [(0.04, False), (0.3, True), (3.0, True)])
def test_a_joint_whose_clock_is_ahead_is_refused_by_name(ahead, refused):
    """By its stamps it would be younger than the picture, and is older: the policy would see a
    picture of now with the joints of a moment ago."""
    aligner = make(("scene",), ("a",))
    for k in range(500):
        now = T + 0.01 * k
        aligner.add_joints("js", now + ahead, {"a": now - T})
        if k % 3 == 0:
            aligner.add_image("scene", now, image(k % 250))
    if refused:
        assert refusal(aligner, now) == (Reason.FUTURE_STAMP, "a")
        assert aligner.trouble(now).reason is Reason.FUTURE_STAMP
    else:
        assert aligner.assemble(now).joints["a"] == pytest.approx(now - T, abs=0.06)
