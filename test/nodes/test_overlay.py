# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A plan in a picture: projection, which rows are shown, what is drawn where."""

import numpy as np
import pytest
from sensor_msgs.msg import CameraInfo

from phyai_ros import robots
from phyai_ros.control.chunk import Chunk
from phyai_ros.control.states import State
from phyai_ros.nodes.camera_messages import pinhole_info
from phyai_ros.nodes.convert import MessageError
from phyai_ros.nodes.overlay_camera import camera_from_info
from phyai_ros.nodes.overlay_picture import describe, draw
from phyai_ros.nodes.overlay_plan import Plan, Recent, Tick
from phyai_ros.nodes.topics import info_topic
from phyai_ros.robots.geometry import Geometry
from phyai_ros.sim import kinematics as kin
from phyai_ros.sim.physics import Physics
from phyai_ros.sim.render import Renderer

TOPIC = "/camera/scene/image_raw"
SIZE = (320, 240)
START = np.append(kin.tool_down(np.array([0.58, -0.03, 0.15])), 0.02)


@pytest.fixture(scope="module")
def ur10e():
    return robots.load("ur10e")


def scene_camera(fovy=41.0):
    return camera_from_info(pinhole_info("scene", *SIZE, fovy), TOPIC)


def test_the_projection_is_the_renderers(ur10e):
    """A block's pixels in the simulator's own picture lie about where its centre is projected."""
    physics = Physics()
    physics.set_joints(START)
    geometry, renderer = Geometry(ur10e), Renderer(physics.model, *SIZE)
    try:
        for x, y in ((0.45, -0.2), (0.7, 0.15)):
            physics.set_block("red", x, y, 0.0)
            pixels = renderer.render(physics.positions, "scene").astype(int)
            red = (pixels[..., 0] > 90) & (pixels[..., 1] < 60) & (pixels[..., 2] < 60)
            rows, columns = np.nonzero(red)
            assert len(rows) > 50
            into = np.linalg.inv(geometry.camera("scene", START))
            point = into[:3, :3] @ (x, y, 0.03) + into[:3, 3]
            found = scene_camera().project(point[None])[0]
            np.testing.assert_allclose(found, (columns.mean(), rows.mean()), atol=3.0)
    finally:
        renderer.close()


def test_what_is_behind_the_camera_is_not_in_the_picture():
    seen = scene_camera().project(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [0.1, 0.0, 0.0]]))
    np.testing.assert_allclose(seen[0], (159.5, 119.5))
    assert np.isnan(seen[1:]).all()


def test_distortion_is_opencvs():
    info = pinhole_info("scene", *SIZE, 60.0)
    info.d = [-0.3, 0.1, 0.001, -0.002, 0.01]
    bent = camera_from_info(info, TOPIC)
    point = np.array([[0.4, -0.3, 1.0]])
    x, y = point[0, :2]
    k1, k2, p1, p2, k3 = info.d
    r2 = x * x + y * y
    radial = 1 + k1 * r2 + k2 * r2**2 + k3 * r2**3
    wanted = np.array(
        [
            x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x),
            y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y,
        ]
    )
    focal, centre = info.k[0], (info.k[2], info.k[5])
    np.testing.assert_allclose(bent.project(point)[0], wanted * focal + centre, atol=1e-6)
    # A rectified picture has none of it left.
    straight = camera_from_info(info, "/camera/scene/image_rect")
    np.testing.assert_allclose(straight.project(point)[0], np.array((x, y)) * focal + centre)


def test_a_fisheye_lens_maps_angles():
    info = pinhole_info("scene", *SIZE, 90.0)
    info.distortion_model, info.d = "equidistant", [0.0] * 4
    found = camera_from_info(info, TOPIC).project(np.array([[1.0, 0.0, 1.0]]))[0]
    np.testing.assert_allclose(found, (info.k[2] + info.k[0] * np.pi / 4, info.k[5]), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"k": [0.0] * 9}, "not calibrated"),
        ({"distortion_model": "barrel"}, "distortion_model: expected plumb_bob.*found 'barrel'"),
        ({"d": [0.1, 0.2]}, "expected 0 or 4 or 5.*found 2"),
    ],
)
def test_a_calibration_that_cannot_be_used_is_refused(change, says):
    info: CameraInfo = pinhole_info("scene", *SIZE, 41.0)
    for name, value in change.items():
        setattr(info, name, value)
    with pytest.raises(MessageError, match=says):
        camera_from_info(info, TOPIC)


def test_the_calibration_is_beside_the_picture():
    assert info_topic("/camera/scene/image_raw") == "/camera/scene/camera_info"
    assert info_topic("/camera/scene/image_raw/compressed") == "/camera/scene/camera_info"


def chunk(request_id, positions, names=kin.JOINTS):
    return Chunk(
        stamp=1.0,
        request_id=request_id,
        epoch=1,
        policy="test",
        instruction="reach the red block",
        joint_names=tuple(names),
        step=0.05,
        positions=np.asarray(positions, float),
    )


def reach(rows=8):
    """Rows that turn the shoulder."""
    made = np.tile(START, (rows, 1))
    made[:, 0] += np.linspace(0.0, 0.12, rows)
    return made


def test_the_plan_is_that_of_the_pictures_moment():
    recent = Recent(kin.JOINTS)
    assert recent.at(1.0) is None
    recent.add_positions(1.0, START)
    assert recent.at(1.0).tick is None
    recent.add_chunk(chunk(1, reach()))
    recent.add_chunk(chunk(2, reach() + 0.1))
    for stamp, request, index in ((1.0, 1, 3), (1.05, 1, 4), (1.10, 2, 2)):
        recent.add_tick(stamp, Tick(State.EXECUTING, request, index, 5))
    at = recent.at(1.07)
    assert (at.tick.request_id, at.current) == (1, 4)
    np.testing.assert_allclose(at.rows, reach())
    assert recent.at(1.2).tick.request_id == 2
    # A clock that goes back: what came before is not of this time.
    recent.add_tick(0.2, Tick(State.WAITING, 0, 0, 0))
    assert len(recent.at(1.2).rows) == 0


def test_joints_that_a_chunk_does_not_name_stay_where_they_are():
    recent = Recent(kin.JOINTS)
    recent.add_positions(1.0, START)
    recent.add_chunk(chunk(1, [[0.5], [0.6]], names=["elbow_joint"]))
    recent.add_tick(1.0, Tick(State.EXECUTING, 1, 0, 2))
    rows = recent.at(1.0).rows
    np.testing.assert_allclose(rows[:, 2], [0.5, 0.6])
    np.testing.assert_allclose(np.delete(rows, 2, 1), np.tile(np.delete(START, 2), (2, 1)))


def plan(current, rows=8):
    tick = Tick(State.EXECUTING, 7, current, rows - current)
    return Plan(reach(rows), START, current, tick, "reach the rød block")


@pytest.mark.parametrize("role", ["scene", "wrist"])
@pytest.mark.parametrize("scale", [1, 2])
def test_the_path_is_drawn_where_the_tool_will_be(ur10e, role, scale):
    geometry = Geometry(ur10e)
    fovy = {"scene": 41.0, "wrist": 72.0}[role]
    camera = camera_from_info(pinhole_info(role, *SIZE, fovy), TOPIC)
    black = np.zeros((SIZE[1], SIZE[0], 3), np.uint8)
    shown = plan(current=3)
    picture = draw(black, camera, role, geometry, shown, scale)
    assert picture.shape == (SIZE[1] * scale, SIZE[0] * scale, 3)
    assert not black.any()
    into = np.linalg.inv(geometry.camera(role, START))
    points = geometry.tool_points("gripper", shown.rows) @ into[:3, :3].T + into[:3, 3]
    pixels = np.rint((camera.project(points) + 0.5) * scale - 0.5).astype(int)
    last = picture[pixels[-1, 1], pixels[-1, 0]]
    np.testing.assert_allclose(last, (235, 0, 160), atol=60)
    past = picture[pixels[1, 1], pixels[1, 0]].astype(int)
    assert np.ptp(past) < 40
    assert past.max() > 100
    upper = picture[: -40 * scale]
    assert upper.any(axis=2).mean() < 0.1, "only the path is drawn"


def test_the_words_say_state_row_and_task():
    assert describe(plan(3)) == ["EXECUTING  row 4 of 8, request 7", "reach the r?d block"]
    nothing = Plan(np.empty((0, 7)), START, 0, None, "")
    assert describe(nothing) == ["no handoff state yet"]


def test_points_that_no_picture_can_show_are_left_out(ur10e):
    """A tool at the camera itself projects to infinity or nowhere."""
    geometry = Geometry(ur10e)
    far = plan(0)
    far.rows[2] = np.nan
    picture = draw(
        np.zeros((SIZE[1], SIZE[0], 3), np.uint8), scene_camera(), "scene", geometry, far
    )
    assert picture.any()
