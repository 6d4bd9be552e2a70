# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T fixture cases as the model's own inputs."""

from dataclasses import dataclass

import numpy as np
import torch
from golden import GOLDEN, cases, tensors

from phyai_ros.engine import solver
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.models.base import Model
from phyai_ros.engine.models.gr00t_n17.adapter import IGNORED_KEYS
from phyai_ros.engine.models.gr00t_n17.layout import from_ids
from phyai_ros.engine.models.gr00t_n17.model import GrootModel, Inputs
from phyai_ros.engine.models.gr00t_n17.read import read_config
from phyai_ros.engine.policy import Policy, load_policy
from phyai_ros.engine.types import Observation

FIXTURE = "groot_n17"
CPU = torch.device("cpu")


def named(tensor: str) -> tuple[str, ...]:
    """The cases that record this tensor; none where the fixtures are not there."""
    listed = cases(FIXTURE)["cases"] if GOLDEN.is_dir() else []
    return tuple(case["name"] for case in listed if tensor in case["tensors"])


MODEL_CASES, E2E_CASES = named("input_ids"), named("e2e.state")


def load_model(dtype: torch.dtype = torch.float32, device: torch.device = CPU) -> GrootModel:
    checkpoint = Checkpoint(GOLDEN / FIXTURE)
    with torch.device("meta"):
        model = GrootModel(read_config(checkpoint))
    checkpoint.fill(model, device=device, dtype=dtype, ignore=IGNORED_KEYS)
    return model


@dataclass
class Run:
    """What one case gives: every intermediate under the fixture's own name."""

    found: dict[str, torch.Tensor]
    expected: dict[str, torch.Tensor]
    info: dict


def case_info(name: str) -> dict:
    return next(c for c in cases(FIXTURE)["cases"] if c["name"] == name)


def inputs_of(model: GrootModel, host: dict[str, torch.Tensor]) -> Inputs:
    """Of a fixture's tensors, on the model's device."""
    config, device = model.config, model.action_head.model.proj_out_2.weight.device
    layout = from_ids(
        host["input_ids"].numpy(),
        host["attention_mask"].numpy().astype(bool),
        [(int(h), int(w)) for _, h, w in host["image_grid_thw"]],
        image_token=config.image_token_id,
        merge=config.vision.merge,
        device=device,
    )
    return Inputs(
        layout,
        host["pixel_values"].to(device),
        host["state"].to(device),
        tuple(host["embodiment_id"].tolist()),
        isolate_padding=False,  # as the reference does
    )


@torch.inference_mode()
def sample(form: Model, inputs: Inputs, noise: torch.Tensor, steps: int) -> torch.Tensor:
    constants, prefix = form.constants(steps), form.prefix(inputs, form.vision(inputs))
    return solver.flow_forward(lambda x, i: form.predict(x, i, prefix, constants), noise, steps)


def run_case(model: GrootModel, name: str) -> Run:
    info, host = case_info(name), tensors(FIXTURE, name)
    steps, device = info["num_steps"], model.action_head.model.proj_out_2.weight.device
    given, inputs = {key: value.to(device) for key, value in host.items()}, inputs_of(model, host)
    layout = inputs.layout
    velocities = []
    with torch.inference_mode():
        features = model.vision(inputs)
        prefix = model.prefix(inputs, features)
        constants = model.constants(steps)

        def predict(x: torch.Tensor, step: int) -> torch.Tensor:
            velocities.append(model.predict(x, step, prefix, constants))
            return velocities[-1]

        guide = None
        if "rtc_action" in given:
            options = info["rtc_options"]
            rows, overlap = options["action_horizon"], options["rtc_overlap_steps"]
            target = torch.zeros_like(given["noise"])
            target[:, :overlap] = given["rtc_action"][:, rows - overlap : rows]
            guide = solver.RtcOverlap(
                target, [overlap], [options["rtc_frozen_steps"]], options["rtc_ramp_rate"]
            )
        actions = solver.flow_forward(predict, given["noise"], steps, guide)
        start = given["noise"] if guide is None else guide.start(given["noise"])
        time = torch.cat([constants[0].time[e : e + 1] for e in inputs.embodiments])
        tokens = model.encode_actions(start, prefix, time)
        hidden = torch.cat([prefix.state, tokens], dim=1)
        found = {
            "image_features": features.image_tokens,
            "backbone_features": prefix.backbone_features,
            "image_mask": layout.image_mask,
            "position_ids": layout.positions,
            "vl_embeds": prefix.vl_embeds,
            "state_features": prefix.state,
            "action_features_first": model.encode_actions(start, prefix, time, positions=False),
            "timestep_embedding_first": model.action_head.model.timestep_embedding(
                torch.zeros(len(inputs.embodiments), dtype=torch.long, device=device)
            ),
            "dit_output_first": model.transform(hidden, prefix, constants[0]),
            "velocities": torch.stack(velocities, dim=1),
            "velocity_first": velocities[0],
            "actions": actions,
        }
        for i, feature in enumerate(features.deepstack):
            found[f"deepstack_features.{i}"] = feature
    return Run({key: value.cpu() for key, value in found.items()}, host, info)


def load_e2e(name: str, **arguments: object) -> tuple[Policy, Observation, dict[str, torch.Tensor]]:
    """The policy of an end-to-end case, its observation, and its tensors."""
    info, given = case_info(name), tensors(FIXTURE, name)
    given = {k.removeprefix("e2e."): v for k, v in given.items()}
    policy = load_policy(GOLDEN / FIXTURE, embodiment=info["embodiment_tag"], **arguments)
    cameras = [key.rsplit(".", 1)[1] for key in info["camera_keys"]]
    images = {key: given[f"raw.{key}"].numpy() for key in cameras}
    return policy, Observation(images, given["state"].numpy(), info["task"]), given


def observations(count: int) -> list[Observation]:
    """Different requests for the libero_sim embodiment: images, states and prompt lengths."""
    _, first, _ = load_e2e("e2e0")
    rng = np.random.default_rng(0)
    words = ["put", "the red bowl", "on the stove", "and then", "close the drawer slowly"]
    out = []
    for i in range(count):
        images = {k: rng.permutation(v.ravel()).reshape(v.shape) for k, v in first.images.items()}
        state = first.state + rng.normal(0, 0.1, first.state.shape).astype(np.float32)
        out.append(Observation(images, state, " ".join(words[: i % 5 + 1])))
    return out
