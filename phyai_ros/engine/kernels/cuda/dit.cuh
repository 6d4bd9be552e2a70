// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// How a residual stream travels between the kernels of ``dit_layers``: groups in float32, and for the
// product behind the next layer norm two things more, so that no block of it has to look at whole rows:
// fragments of x scale in 16 bits, and of every `columns` columns of a row mean and sum of squared
// deviations, [width / columns][32 pairs of rows][4], the four being mean, mean 8 rows below, sum, sum
// 8 rows below.

// x from `column` on, Count groups of 8 columns of the thread's two rows, whose norm multiplies by scale.
template <int Count>
DEV void leave(const float (&x)[Count][4], const Float2 (&scale)[Count], u16* scaled, float* statistics,
               u32 column, u32 tid) {
  float mean[2] = {}, square[2] = {};
#pragma unroll
  for (int j = 0; j < Count; j++) {
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
      v[e] = x[j][e] * scale[j].v[e & 1];
      mean[e >> 1] += x[j][e];
    }
    put_fragment(scaled, column + j * 8, tid, v);
  }
#pragma unroll
  for (int h = 0; h < 2; h++) mean[h] = quad_sum(mean[h]) * (1.0f / (Count * 8));
#pragma unroll
  for (int j = 0; j < Count; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      float apart = x[j][e] - mean[e >> 1];
      square[e >> 1] += apart * apart;
    }
#pragma unroll
  for (int h = 0; h < 2; h++) square[h] = quad_sum(square[h]);
  if ((tid & 3) == 0)
    ((Float4*)statistics)[column / (Count * 8) * 32 + (tid >> 2)] = {mean[0], mean[1], square[0],
                                                                   square[1]};
}
