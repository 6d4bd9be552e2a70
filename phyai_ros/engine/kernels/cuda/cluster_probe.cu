// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Does nothing: what is asked of the driver is how many of its clusters fit.

extern "C" __global__ void __cluster_dims__(RANKS, 1, 1) cluster_probe(int) {}
