# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ResNet trunks (arXiv 1512.03385, the v1.5 striding) for inference, in plain torch.

Submodules are named as in the published ImageNet weights (conv1, bn1, layer1.0.conv1, ...), so
that a checkpoint's keys fit by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

Norm = Callable[[int], nn.Module]


class FrozenBatchNorm2d(nn.Module):
    """Batch normalisation with fixed statistics: evaluation-mode and frozen alike. Its tensors
    stay float32 in a bfloat16 model (``batch_norm_tensors``): it divides by their root."""

    running_mean: torch.Tensor
    running_var: torch.Tensor

    def __init__(self, channels: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
        )


def batch_norm_tensors(model: nn.Module) -> frozenset[str]:
    """Names of the parameters and buffers of every batch norm in ``model``."""
    norms = [n for n, m in model.named_modules() if isinstance(m, FrozenBatchNorm2d)]
    leaves = ("weight", "bias", "running_mean", "running_var")
    return frozenset(f"{norm}.{leaf}" for norm in norms for leaf in leaves)


def group_norm(channels: int) -> nn.Module:
    """Groups of 16 channels, as Diffusion Policy replaces batch norms (arXiv 2303.04137)."""
    return nn.GroupNorm(channels // 16, channels)


@dataclass(frozen=True)
class Variant:
    """blocks: of each of the four stages."""

    bottleneck: bool
    blocks: tuple[int, int, int, int]


VARIANTS = {
    "resnet18": Variant(False, (2, 2, 2, 2)),
    "resnet34": Variant(False, (3, 4, 6, 3)),
    "resnet50": Variant(True, (3, 4, 6, 3)),
    "resnet101": Variant(True, (3, 4, 23, 3)),
    "resnet152": Variant(True, (3, 8, 36, 3)),
}


def _conv(inputs: int, outputs: int, size: int, stride: int = 1, dilation: int = 1) -> nn.Conv2d:
    padding = dilation * (size // 2)
    return nn.Conv2d(inputs, outputs, size, stride, padding, dilation, bias=False)


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside the input: [B, inputs, h, w] -> [B, width, h', w']."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, dilation: int, norm: Norm):
        super().__init__()
        if dilation > 1:
            raise ValueError("a basic block (resnet18, resnet34) has no dilated form")
        self.conv1, self.bn1 = _conv(inputs, width, 3, stride), norm(width)
        self.conv2, self.bn2 = _conv(width, width, 3), norm(width)
        self.downsample = _downsample(inputs, width, stride, norm)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 beside the input: [B, inputs, h, w] -> [B, 4 width, h', w']."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, dilation: int, norm: Norm):
        super().__init__()
        self.conv1, self.bn1 = _conv(inputs, width, 1), norm(width)
        self.conv2, self.bn2 = _conv(width, width, 3, stride, dilation), norm(width)
        self.conv3, self.bn3 = _conv(width, 4 * width, 1), norm(4 * width)
        self.downsample = _downsample(inputs, 4 * width, stride, norm)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


def _downsample(inputs: int, outputs: int, stride: int, norm: Norm) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(_conv(inputs, outputs, 1, stride), norm(outputs))


class ResNet(nn.Module):
    """Trunk without pooling and classifier: [B, 3, H, W] -> [B, channels, about H/32, W/32].

    name: a key of ``VARIANTS``. width: channels of the first stage (64 in every published one).
    dilate_last: the last stage dilates by 2 instead of striding (bottleneck variants only).
    """

    def __init__(
        self,
        name: str,
        *,
        norm: Norm = FrozenBatchNorm2d,
        width: int = 64,
        dilate_last: bool = False,
    ):
        super().__init__()
        variant = VARIANTS[name]
        block = Bottleneck if variant.bottleneck else BasicBlock
        self.dilate_last = dilate_last
        self.channels = 8 * width * block.expansion
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = norm(width)
        inputs = width
        stages = []
        for i, count in enumerate(variant.blocks):
            dilated = dilate_last and i == 3
            stage = []
            for j in range(count):
                stride = 2 if i > 0 and j == 0 and not dilated else 1
                dilation = 2 if dilated and j > 0 else 1
                stage.append(block(inputs, width << i, stride, dilation, norm))
                inputs = (width << i) * block.expansion
            stages.append(nn.Sequential(*stage))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.max_pool2d(x, 3, 2, 1)
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))

    def feature_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the output for an input of this size."""
        halvings = 4 if self.dilate_last else 5
        for _ in range(halvings):  # each a convolution or pool with (n + 1) // 2 outputs
            height, width = (height + 1) // 2, (width + 1) // 2
        return height, width
