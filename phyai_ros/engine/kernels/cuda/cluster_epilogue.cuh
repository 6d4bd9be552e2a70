// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// What becomes of the columns that a warpgroup of cluster_product.cu finishes. Between cluster.cuh and
// it.

DEV float activate(float x) {
#if ACTIVATION == GELU
  return gelu_tanh(x);
#elif ACTIVATION == SILU
  return silu(x);
#else
  return x;
#endif
}

DEV void put_operand(u16* to, u32 column, u32 tid, const float* v) {
  if (LEAVES)
    put_bytes(to, column, tid, v);
  else
    put_fragment(to, column, tid, v);
}

// What finishing takes beside the sums, of a thread.
struct Beside {
  Float2 bias[OWN], channel[OWN];
#if EPILOGUE == RESIDUAL
  Float2 gate[OWN], next[OWN];
#elif EPILOGUE == ROPE
  Float2 cosine[OWN / 2][2], sine[OWN / 2][2];
#endif

  // What the kernels in front do not write.
  DEV void load(const Given& g, u32 tile, u32 rank, u32 row, u32 q) {
#pragma unroll
    for (u32 j = 0; j < OWN; j++) {
      u32 column = column_of(tile, owned(rank, j)) + q * 2;
      bias[j] = g.bias ? *(const Float2*)(g.bias + column) : Float2{0.0f, 0.0f};
      if (FP8) channel[j] = *(const Float2*)(g.channels + column);
#if EPILOGUE == RESIDUAL
      gate[j] = g.gate ? *(const Float2*)(g.gate + column) : Float2{1.0f, 1.0f};
      next[j] = g.scale ? *(const Float2*)(g.scale + column) : Float2{1.0f, 1.0f};
#endif
    }
#if EPILOGUE == ROPE
#pragma unroll
    for (u32 j = 0; j < OWN / 2; j++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        u32 r = row + h * 8, d = column_of(tile, owned(rank, j)) % D + q * 2;
        bool there = r < (u32)g.rows;
        cosine[j][h] = there ? *(const Float2*)(g.cosine + r * D + d) : Float2{};
        sine[j][h] = there ? *(const Float2*)(g.sine + r * D + d) : Float2{};
      }
#endif
  }
};

// own: sums with their bias. lanes: whose rows are there, of the warp.
DEV void finish(float (&own)[OWN][4], const Beside& with,
                Float4 (&old)[OWN], const Given& g, u32 tile, u32 rank, u32 tid,
                u32 row, u32 q, u32 lanes) {
#if EPILOGUE == ROPE
#pragma unroll
  for (u32 j = 0; j < OWN / 2; j++) {
    u32 column = column_of(tile, owned(rank, j)), head = column / D, d = column % D + q * 2;
    float *one = own[j], *two = own[OWN / 2 + j];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      if (head >= HEADS + KV) continue;
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float x = one[h * 2 + e], y = two[h * 2 + e];
        float c = with.cosine[j][h].v[e], s = with.sine[j][h].v[e];
        one[h * 2 + e] = x * c - y * s;
        two[h * 2 + e] = y * c + x * s;
      }
    }
    if (head < HEADS) {
      put_fragment(g.out, column, tid, one);
      put_fragment(g.out, column + D / 2, tid, two);
      continue;
    }
    const bool is_key = head < HEADS + KV;
    u16* cache = (is_key ? g.key : g.value) + (head - HEADS - (is_key ? 0 : KV)) * D + d;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      u32 r = row + h * 8;
      if (r >= g.rows) continue;
      *(u32*)(cache + r * KV * D) = pack(one[h * 2], one[h * 2 + 1]);
      *(u32*)(cache + r * KV * D + D / 2) = pack(two[h * 2], two[h * 2 + 1]);
    }
  }
#elif EPILOGUE == RESIDUAL
#pragma unroll
  for (u32 j = 0; j < OWN; j++) {
#pragma unroll
    for (int e = 0; e < 4; e++) old[j].v[e] += with.gate[j].v[e & 1] * own[j][e];
    u32 column = column_of(tile, owned(rank, j));
    *group_at(g.x, column, tid) = old[j];
#pragma unroll
    for (int e = 0; e < 4; e++) old[j].v[e] *= COPY;
    if (g.squares) {
      Float2 square;
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const float* two = old[j].v + h * 2;
        square.v[h] = quad_sum(two[0] * two[0] + two[1] * two[1], lanes);
      }
      if (q == 0) *squares_at(g.squares, column >> 3, tid) = square;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) old[j].v[e] *= with.next[j].v[e & 1];
    put_operand(g.out, column, tid, old[j].v);
  }
#elif EPILOGUE == GATED
#pragma unroll
  for (u32 j = 0; j < OWN / 2; j++) {
#pragma unroll
    for (int e = 0; e < 4; e++) own[j][e] = activate(own[j][e]) * own[OWN / 2 + j][e];
    put_operand(g.out, column_of(tile, owned(rank, j)), tid, own[j]);
  }
#endif
}
