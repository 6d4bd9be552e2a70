// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Rows as a model has them into the orders of ``dit.cuh``: a block OWN groups of 8 columns.
//
// Defined outside: N, their width; OWN.

struct Given {
  const float* rows_in;  // [rows, N]
  const float* scale;    // [N]
  float* x;              // groups
  u16* scaled;           // fragments
  float* statistics;
  int rows;
};

extern "C" __global__ void __launch_bounds__(128) dit_rows(const __grid_constant__ Given g) {
  const u32 tid = threadIdx.x, lane = tid & 31, row = (tid >> 5) * 16 + (lane >> 2);
  const u32 column = blockIdx.x * OWN * 8;
  next_may_start();
  Float2 scale[OWN];
#pragma unroll
  for (int j = 0; j < OWN; j++)
    scale[j] = *(const Float2*)(g.scale + column + j * 8 + (lane & 3) * 2);
  others_done();
  float v[OWN][4];
#pragma unroll
  for (int j = 0; j < OWN; j++) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const float* from = g.rows_in + (row + h * 8) * N + column + j * 8 + (lane & 3) * 2;
      Float2 f = (int)row + h * 8 < g.rows ? *(const Float2*)from : Float2{};
      v[j][h * 2] = f.v[0], v[j][h * 2 + 1] = f.v[1];
    }
    *group_at(g.x, column + j * 8, tid) = {v[j][0], v[j][1], v[j][2], v[j][3]};
  }
  leave(v, scale, g.scaled, g.statistics, column, tid);
}
