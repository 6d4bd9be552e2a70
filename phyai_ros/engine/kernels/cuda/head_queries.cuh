// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// A block's queries from a residual stream's copy, for head_attention.cu: between head.cuh and it.

#if WIDTH

// What the kernel in front does not write, of a thread.
struct Ahead {
  Float2 norm[DEPTH][2], cosine[STEPS][2], sine[STEPS][2];
  DEV void load(const Given& g, u32 warp, u32 quad, u32 row) {
#pragma unroll
    for (u32 i = 0; i < DEPTH; i++)
#pragma unroll
      for (u32 h = 0; h < 2; h++)
        norm[i][h] = *(const Float2*)(g.norm + (warp * DEPTH + i) * 16 + h * 8 + quad * 2);
#pragma unroll
    for (u32 j = 0; j < STEPS; j++)
#pragma unroll
      for (u32 h = 0; h < 2; h++) {
        bool there = row + h * 8 < g.rows;
        u32 at = (row + h * 8) * D + j * 8 + quad * 2;
        cosine[j][h] = there ? *(const Float2*)(g.cosine + at) : Float2{};
        sine[j][h] = there ? *(const Float2*)(g.sine + at) : Float2{};
      }
  }
};

// weights: of this head, in shared memory once `there` says so. parts, statistics: for sums of the
// warps, which share the depth. Every warp gets the same queries.
DEV void make_queries(u32 (&q)[STEPS][4], const Given& g, const Ahead& ahead, u32 tile, u32 weights,
                      u32 there, float* parts, Float4* statistics) {
  const u32 warp = threadIdx.x >> 5, lane = threadIdx.x & 31, quad = lane & 3;
  const u32 row = tile * 16 + (lane >> 2);
  u32 a[DEPTH][4];
#pragma unroll
  for (u32 i = 0; i < DEPTH; i++) {
    Word4 words = {};
    if (row < g.rows) words = ((const Word4*)g.q)[(warp * DEPTH + i) * 128 + tile * 32 + lane];
#pragma unroll
    for (u32 e = 0; e < 4; e++) a[i][e] = words.v[e];
  }
  // Word e of a step is of row e & 1. What a row has in common is multiplied behind the product.
  float square[2] = {};
#pragma unroll
  for (u32 i = 0; i < DEPTH; i++)
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      Float2 f = unpack(a[i][e]), s = ahead.norm[i][e >> 1];
      square[e & 1] += f.v[0] * f.v[0] + f.v[1] * f.v[1];
      a[i][e] = pack(f.v[0] * s.v[0], f.v[1] * s.v[1]);
    }
  float made[STEPS * 2][4] = {};
  bar_wait(there, 0);
#pragma unroll
  for (u32 i = 0; i < DEPTH; i++) {
    u32 step = warp * DEPTH + i, box = weights + (step >> 2) * BOX_BYTES;
#pragma unroll
    for (u32 j = 0; j < STEPS; j++) {
      u32 b[4], column = j * 16 + (lane >> 4) * 8 + (lane & 7);
      load_matrices(b, piece(box, column, (step & 3) * 2 + (lane >> 3 & 1)));
      multiply(made[j * 2], a[i], b[0], b[1]);
      multiply(made[j * 2 + 1], a[i], b[2], b[3]);
    }
  }
#pragma unroll
  for (u32 i = 0; i < STEPS * 2; i++)
    ((Float4*)parts)[(warp * STEPS * 2 + i) * 32 + lane] = {made[i][0], made[i][1], made[i][2],
                                                           made[i][3]};
#pragma unroll
  for (u32 h = 0; h < 2; h++) square[h] = quad_sum(square[h]);
  if (quad == 0) statistics[warp * 8 + (lane >> 2)] = {square[0], square[1], 0.0f, 0.0f};
  __syncthreads();
  float inverse[2] = {};
#pragma unroll
  for (u32 w = 0; w < WARPS; w++) {
    Float4 of = statistics[w * 8 + (lane >> 2)];
#pragma unroll
    for (u32 h = 0; h < 2; h++) inverse[h] += of.v[h];
  }
#pragma unroll
  for (u32 h = 0; h < 2; h++)
    inverse[h] = rsqrt_(inverse[h] * (1.0f / WIDTH) + g.eps * (COPY * COPY));
#pragma unroll
  for (u32 i = 0; i < STEPS * 2; i++)
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      float total = 0.0f;
#pragma unroll
      for (u32 w = 0; w < WARPS; w++)
        total += parts[((w * STEPS * 2 + i) * 32 + lane) * 4 + e];
      made[i][e] = total * inverse[e >> 1];
    }
#pragma unroll
  for (u32 j = 0; j < STEPS; j++)
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      float x = made[j][e], y = made[STEPS + j][e];
      float c = ahead.cosine[j][e >> 1].v[e & 1], s = ahead.sine[j][e >> 1].v[e & 1];
      made[j][e] = x * c - y * s;
      made[STEPS + j][e] = y * c + x * s;
    }
#pragma unroll
  for (u32 i = 0; i < STEPS; i++)
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      const float* two = made[i * 2 + (e >> 1)] + (e & 1) * 2;
      q[i][e] = pack(two[0], two[1]);
    }
  __syncthreads();  // parts and statistics are used again
}

#endif
