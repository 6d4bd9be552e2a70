// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Every layer of a Gemma action expert in one launch: few tokens, one request, Hopper.
//
// CLUSTERS clusters of 8 blocks stay on their multiprocessors. A product's columns are split over
// clusters and its depth over the ranks of a cluster; partial sums are pushed into the shared memory
// of the rank that owns the columns, which adds them in a fixed order. Blocks wait for each other's
// results by reading them until they are there (EMPTY of hopper.cuh): no barrier, no flag. One warp streams weights (and keys and values) through a ring of shared
// memory, as far ahead as the ring is deep.
//
// Norms: the product takes y = x scale inv_before, where inv_before is the row's inverse norm at the
// norm in front (any positive number would do: it keeps y in range); behind the product come
// inv / inv_before and shift W^T, which is computed once a load.

DEV void queries_keys_values(Block& b, const Given& g, int layer, u32 it, float* red, float* inverse,
                             float* ratio) {
  u32 own = 2 * b.pairs.count;  // pairs of columns of each rank
  expect(b, RANKS, BLOCK_QKV, 2 * own * TILES_N * 32);
  load_rows<256, T>(b, b.act, g.y + b.rank * (W / RANKS), W, T);
  consumers_sync();
  stamp(b, g, layer, 1);
  const int EACH = (T * MOST_PAIRS + CONSUMERS - 1) / CONSUMERS;
  float bias[EACH][2], cosine[EACH], sine[EACH];
  const float* vectors = g.vectors + layer * V_LAYER + V_BIAS1;
#pragma unroll
  for (int n = 0; n < EACH; n++) {
    u32 item = b.tid + n * CONSUMERS, t = item / own, pair = b.rank * own + item % own;
    u32 tile = b.pairs.first + pair / 16, i = (tile & 7) * 16 + pair % 16;
    if (t >= T) continue;
    bias[n][0] = vectors[(tile >> 3) * D + i], bias[n][1] = vectors[(tile >> 3) * D + i + D / 2];
    cosine[n] = g.cosine[t * D + i], sine[n] = g.sine[t * D + i];
  }
  float acc[2][TILES_N][4];
  clear(acc);
  if (b.warp < b.pairs.count) {
    product<2, 8, 272, 272>(acc, take(b, it + b.warp), 16 * 272, b.act, b.lane);
    __syncwarp();
    if (b.lane == 0) give(b, it + b.warp, 2);
  }
  puts_begin(b);
  if (b.warp < b.pairs.count) {
#ifdef DIRECT
    pushes_begin(b);
#endif
#pragma unroll
    for (int h = 0; h < 2; h++) {
      u32 pair = b.warp * 16 + h * 8 + (b.lane >> 2);
      Aim to = aim(b, pair / own, pair / own, b.rank, BLOCK_QKV,
                   (pair % own * PITCH_R + (b.lane & 3) * 2) * 4);
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < TILES_N; i++)
          put2(to, m * MOST_PAIRS * PITCH_R * 4 + i * 32, acc[m][i][h * 2], acc[m][i][h * 2 + 1]);
    }
  }
  send(b, 0, RANKS, b.rank, BLOCK_QKV);
  stamp(b, g, layer, 2);
  norms(b, g, g.squares, inverse, ratio);  // here, while the other ranks multiply
  gathered(b);
  consumers_sync();
  stamp(b, g, layer, 3);
#pragma unroll
  for (int n = 0; n < EACH; n++) {
    u32 item = b.tid + n * CONSUMERS, t = item / own, p = item % own, pair = b.rank * own + p;
    u32 tile = b.pairs.first + pair / 16, head = tile >> 3, i = (tile & 7) * 16 + pair % 16;
    if (t >= T) continue;
    float one = 0.0f, two = 0.0f;
#pragma unroll
    for (int s = 0; s < RANKS; s++) {
      one += red[(s * 2 * MOST_PAIRS + p) * PITCH_R + t];
      two += red[((s * 2 + 1) * MOST_PAIRS + p) * PITCH_R + t];
    }
    one = one * ratio[t] + bias[n][0];
    two = two * ratio[t] + bias[n][1];
    if (head <= HEADS) {
      float turned = one * cosine[n] - two * sine[n];
      two = two * cosine[n] + one * sine[n];
      one = turned;
    }
    u16* to = head < HEADS ? g.q + (t * HEADS + head) * D : g.own + ((head - HEADS) * T + t) * D;
    store16(to + i, narrow(one));
    store16(to + i + D / 2, narrow(two));
  }
  wipe(b, g.z + ((layer + 1) & 1) * T * MLP, T * MLP * 2);
}

DEV void output(Block& b, const Given& g, int layer, u32 it, const float* red, float (&v)[ITEMS],
                float (&scale)[ITEMS]) {
  const float* vectors = g.vectors + layer * V_LAYER;
  float gate[ITEMS];
  vectors_of(b, vectors + V_GATE1, gate);
  vectors_of(b, vectors + V_SCALE2, scale);
  expect(b, RANKS, BLOCK_COLUMNS, 4 * b.columns.count * TILES_N * 32);
  load_rows<512, T>(b, b.act, g.attended + b.rank * D, HEADS * D, T);
  consumers_sync();
  stamp(b, g, layer, 11);
  u32 tile = b.warp >> 1, half = b.warp & 1;
  float acc[1][TILES_N][4];
  clear(acc);
  if (tile < b.columns.count) {
    product<1, 8, 528, 528>(acc, take(b, it + tile) + half * 256, 0, b.act + half * 256, b.lane);
    __syncwarp();
    if (b.lane == 0) give(b, it + tile, 1);
  }
  puts_begin(b);
  if (tile < b.columns.count) push_columns(b, acc);
  send(b, 0, RANKS, b.rank, BLOCK_COLUMNS);
  stamp(b, g, layer, 12);
  gathered(b);
  stamp(b, g, layer, 13);
  add_columns(b, red, gate, v);
}

DEV void gate_and_up(Block& b, const Given& g, int layer, u32 it, u8* act, const float* red,
                     float* inverse, float* ratio) {
  u32 units = 2 * b.gated.count, each = 8 * b.gated.count;  // pairs of columns of each of two ranks
  // CONSUMERS is a multiple of `each`: a thread has one column.
  u32 c = b.tid % each, column = b.gated.first * 16 + (b.rank & 1) * each + c;
  const float* vectors = g.vectors + layer * V_LAYER + V_BIAS2;
  float gate_bias = vectors[column], up_bias = vectors[MLP + column];
  expect(b, 2, BLOCK_GATED, 2 * each * TILES_N * 32);
  load_rows<1024, T>(b, b.act, g.y + T * W + (b.rank & 1) * 512, W, T);
  consumers_sync();
  stamp(b, g, layer, 16);
  float acc[2][TILES_N][4];
  clear(acc);
  if (b.warp < units)
#pragma unroll 1
    for (u32 s = 0; s < 2; s++) {
      u32 chunk = it + s * units + b.warp;
      product<2, 8, 272, 1040>(acc, take(b, chunk), 16 * 272,
                               b.act + (b.warp & 1) * 512 + s * 256, b.lane);
      __syncwarp();
      if (b.lane == 0) give(b, chunk, 2);
    }
  // The two halves of this rank's depth meet in shared memory.
  consumers_sync();
  float4* half = (float4*)act + (b.warp >> 1) * (2 * TILES_N * 32) + b.lane;
  if (b.warp < units && b.warp & 1) {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
      for (int i = 0; i < TILES_N; i++)
        half[(m * TILES_N + i) * 32] =
            make_float4(acc[m][i][0], acc[m][i][1], acc[m][i][2], acc[m][i][3]);
  }
  consumers_sync();
  bool whole = b.warp < units && !(b.warp & 1);
  if (whole) {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
      for (int i = 0; i < TILES_N; i++) {
        float4 o = half[(m * TILES_N + i) * 32];
        acc[m][i][0] += o.x, acc[m][i][1] += o.y, acc[m][i][2] += o.z, acc[m][i][3] += o.w;
      }
  }
  puts_begin(b);
  if (whole) {
#ifdef DIRECT
    pushes_begin(b);
#endif
#pragma unroll
    for (int h = 0; h < 2; h++) {
      u32 pair = (b.warp >> 1) * 16 + h * 8, other = pair >= each;
      u32 row = pair - other * each + (b.lane >> 2);
      Aim to = aim(b, (b.rank & ~1u) + other, other, b.rank & 1, BLOCK_GATED,
                   (row * PITCH_R + (b.lane & 3) * 2) * 4);
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < TILES_N; i++)
          put2(to, m * 40 * PITCH_R * 4 + i * 32, acc[m][i][h * 2], acc[m][i][h * 2 + 1]);
    }
  }
  send(b, b.rank & ~1u, 2, b.rank & 1, BLOCK_GATED);
  stamp(b, g, layer, 17);
  norms(b, g, g.squares + T * MOST_GRID, inverse, ratio);
  gathered(b);
  consumers_sync();
  stamp(b, g, layer, 18);
  u16* z = g.z + (layer & 1) * T * MLP;
  for (u32 t = b.tid / each; t < T; t += CONSUMERS / each) {
    float gate = red[c * PITCH_R + t] + red[(80 + c) * PITCH_R + t];
    float up = red[(40 + c) * PITCH_R + t] + red[(120 + c) * PITCH_R + t];
    gate = gate * ratio[t] + gate_bias;
    up = up * ratio[t] + up_bias;
    store16(z + t * MLP + column, narrow(gelu_tanh(gate) * up));
  }
  wipe(b, g.attended, T * HEADS * D * 2);
}

DEV void down(Block& b, const Given& g, int layer, u32 it, const float* red, float (&v)[ITEMS],
              float (&scale)[ITEMS]) {
  const float* vectors = g.vectors + layer * V_LAYER;
  float gate[ITEMS];
  vectors_of(b, vectors + V_GATE2, gate);
  // Behind the last layer there is no norm of the next.
  vectors_of(b, vectors + (layer + 1 < DEPTH ? V_LAYER : 0) + V_SCALE1, scale);
  expect(b, RANKS, BLOCK_COLUMNS, 4 * b.columns.count * TILES_N * 32);
  load_rows<1024, T>(b, b.act, g.z + (layer & 1) * T * MLP + b.rank * 512, MLP, T);
  consumers_sync();
  stamp(b, g, layer, 21);
  float acc[1][TILES_N][4];
  clear(acc);
  if (b.warp < 2 * b.columns.count) {
    product<1, 16, 528, 1040>(acc, take(b, it + b.warp), 0, b.act + (b.warp & 1) * 512, b.lane);
    __syncwarp();
    if (b.lane == 0) give(b, it + b.warp, 2);
  }
  puts_begin(b);
  if (b.warp < 2 * b.columns.count) push_columns(b, acc);
  send(b, 0, RANKS, b.rank, BLOCK_COLUMNS);
  stamp(b, g, layer, 22);
  gathered(b);
  stamp(b, g, layer, 23);
  add_columns(b, red, gate, v);
}

DEV void consume(Block& b, const Given& g, u8* act, float* red, float* inverse, float* ratio) {
  float x[ITEMS], v[ITEMS], scale[ITEMS];
  for (u32 i = b.tid; i < 64; i += CONSUMERS) inverse[i] = 1.0f, ratio[i] = 1.0f;
  others_done();
  consumers_sync();
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    Place p = place(b, i);
    x[i] = p.real ? g.x[p.t * W + p.column] : 0.0f;
    v[i] = 0.0f;
  }
  vectors_of(b, g.vectors + V_SCALE1, scale);
  residual(b, g, 0, inverse, x, v, scale);
  u32 it = 0;
  for (int layer = 0; layer < DEPTH; layer++) {
    queries_keys_values(b, g, layer, it, red, inverse, ratio);
    it += b.pairs.count;
    leave(b, g, layer, 4);
    attend(b, g, layer, it, red, act, inverse + 128);
    it += 2 * b.n;
    leave(b, g, layer, 9);
    output(b, g, layer, it, red, v, scale);
    it += b.columns.count;
    residual(b, g, 1, inverse, x, v, scale);
    wipe(b, g.q, T * HEADS * D * 2);
    wipe(b, g.own, 2 * T * D * 2);
    leave(b, g, layer, 14);
    gate_and_up(b, g, layer, it, act, red, inverse, ratio);
    it += 4 * b.gated.count;
    leave(b, g, layer, 19);
    down(b, g, layer, it, red, v, scale);
    it += 2 * b.columns.count;
    if (layer + 1 < DEPTH) {
      residual(b, g, 0, inverse, x, v, scale);
    } else {
#pragma unroll
      for (int i = 0; i < ITEMS; i++) x[i] += v[i];
    }
    wipe(b, g.y + T * W, T * W * 2);
    wipe(b, g.squares + T * MOST_GRID, T * MOST_GRID * 4);
    leave(b, g, layer, 24);
  }
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    Place p = place(b, i);
    if (p.real) g.x[p.t * W + p.column] = x[i];
  }
}

extern "C" __global__ void __cluster_dims__(RANKS, 1, 1) __launch_bounds__(THREADS, 1)
    gemma_stack(const __grid_constant__ Given g) {
  extern __shared__ __align__(128) u8 memory[];
  u8* act = memory + SLOTS * SLOT;
  float* red = (float*)(act + ACT);
  float* inverse = (float*)(act + ACT + RED);
  Block b;
  b.ring = shared_of(memory);
  b.act = b.ring + SLOTS * SLOT;
  b.red = b.act + ACT;
  b.pairs_at = b.red + RED + 512;
  b.full = b.red + RED + 768;
  b.empty = b.full + SLOTS * 8;
  b.pushed = b.empty + SLOTS * 8;
  b.free = b.pushed + 8;
  b.tid = threadIdx.x, b.warp = b.tid >> 5, b.lane = b.tid & 31;
  b.cluster = blockIdx.x / RANKS, b.rank = blockIdx.x % RANKS;
  b.pushes = 0;
  divide(b, g.prefix);
  // Rows that are not copied must be finite: a weight of zero does not hide a NaN.
  for (u32 i = b.tid; i < SLOTS * SLOT / 16; i += THREADS)
    ((float4*)memory)[i] = make_float4(0, 0, 0, 0);
  if (b.tid == 0) {
    for (u32 i = 0; i < SLOTS; i++) bar_init(b.full + i * 8, 32), bar_init(b.empty + i * 8, 2);
    bar_init(b.pushed, 1);
    bar_init(b.free, RANKS);
    bars_made();
  }
  cluster_sync();
  next_may_start();
  if (b.warp >= WARPS)
    produce(b, g, b.warp - WARPS);
  else
    consume(b, g, act, red, inverse, inverse + 64);
  __syncwarp();
  cluster_sync();  // nobody leaves while others push to it
}
