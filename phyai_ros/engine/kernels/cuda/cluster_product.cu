// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// y = epilogue(norm(x) W^T), 64 rows at most, sums joined in clusters (``join.cuh``). All of a block's
// weights are asked for at once, before the kernel in front has ended.
//
// Defined outside, beside what ``join.cuh`` needs: N of W [N, K]; NORM, whether an RMS norm stands in
// front, whose scale is in the operands; EPILOGUE and what it needs; FP8, whether W is E4M3, and what
// it multiplies E5M2 (``e4m3.cuh``): BYTES, whether it comes so, and LEAVES, whether what the next
// product reads is left so; LATE, whether the next launch may start behind this one's products alone,
// so that its weights do not come between these and their operands; REGISTERS of a thread.

#define ROPE 1      // packed: HEADS heads of queries, KV of keys, KV of values, D columns each
#define RESIDUAL 2  // x += gate (y + bias)
#define GATED 3     // rows of W: gates, then as many ups -> act(gate) up
// Of the residual stream, float32, norms read a copy in 16 bits, times this: far from overflow, also
// once it is multiplied by a norm's scale.
#define COPY 0.015625f
#define GELU 1
#define SILU 2

#ifndef D
#define D 256
#define HEADS 8
#define KV 1
#endif
#define HALF (COLUMNS / 2)
#define STATISTICS_BYTES (NORM ? RANKS * 32 * 8 : 0)
#define THREADS (GROUPS * 128)
// Whether a product begins with the first pieces of the weights: where these are last to come.
#ifndef EACH
#define EACH (EPILOGUE == GATED)
#endif
#define ARRIVALS (EACH ? GROUPS * PIECES : 1)

static_assert(N % COLUMNS == 0, "whole tiles");

struct Given {
  TensorMap weights;   // boxes of HALF rows
  const Word4* in;     // fragments of K columns, or of BYTES; in front of a norm, the stream's copy
  const float* scale;  // RESIDUAL: of the norm behind, [N]; null for ones
  const float* bias;   // [N] or null
  const float* gate;   // [N] or null
  const float* channels;  // FP8: [N], what rows of W are multiplied by
  float* x;            // RESIDUAL: the stream, groups of N columns
  const float* old;    // RESIDUAL: what it was, x itself or a stream that stays; null for zeros
  u16* out;            // fragments, or LEAVES; ROPE: the queries, RESIDUAL: the stream's copy, scaled
  float* squares;      // of the stream's unscaled copy, summed over 8 columns: [K / 8][32][2], as
                       // groups hold rows; RESIDUAL: [N / 8][32][2], written, or null
  u16* key;            // ROPE: rows of KV D, the first that is written
  u16* value;
  const float* cosine;  // [rows, D]
  const float* sine;
  int rows;
  float eps;
};

// First of the 8 columns of group i of the tile, of 2 HALF / 8.
DEV u32 column_of(u32 tile, u32 i) {
#if EPILOGUE == ROPE
  const u32 half = HALF / 8;
  u32 pair = tile * HALF, head = pair / (D / 2);
  return head * D + pair % (D / 2) + (i < half ? i * 8 : D / 2 + (i - half) * 8);
#elif EPILOGUE == GATED
  const u32 half = HALF / 8;
  return tile * HALF + (i < half ? i * 8 : N / 2 + (i - half) * 8);
#else
  return tile * COLUMNS + i * 8;
#endif
}

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
    put_upper(to, column, tid, v);
  else
    put_fragment(to, column, tid, v);
}

// Sums of squares of a thread's two rows, over 8 columns.
DEV Float2* squares_at(float* squares, u32 group, u32 tid) {
  return (Float2*)squares + group * 32 + (tid >> 2);
}

// The same, over a rank's share.
DEV u32 statistics_at(u32 statistics, u32 rank, u32 tid) {
  return statistics + (rank * 32 + (tid >> 2)) * 8;
}

extern "C" __global__ void __maxnreg__(REGISTERS) cluster_product(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 dynamic[];
  const u32 tid = threadIdx.x & 127, own_group = GROUPS == 1 ? 0 : __shfl_sync(~0u, threadIdx.x >> 7, 0);
  const u32 lane = tid & 31, row = (tid >> 5) * 16 + (lane >> 2), q = lane & 3;
  const u32 block = cluster_rank(), rank = block * GROUPS + own_group, tile = blockIdx.x / BLOCKS;
  const bool live = row < g.rows;  // one of this thread's rows is
  const u32 weights = shared_of(dynamic);
  const u32 received = weights + GROUPS * SHARE_BYTES, statistics = received + GROUPS * RECEIVED_BYTES;
  const u32 joined = statistics + STATISTICS_BYTES, there = joined + 8;

  if (threadIdx.x == 0) {
    bar_init(joined, 1);
#pragma unroll
    for (u32 i = 0; i < ARRIVALS; i++) bar_init(there + i * 8, 1);
    bars_made();
    if (!EACH) bar_expect(there, GROUPS * SHARE_BYTES);
    if (BLOCKS > 1)  // from each warpgroup of the other blocks
      bar_expect(joined, (BLOCKS - 1) * GROUPS * live_pairs(g.rows) * (OWN * 64 + (NORM ? 8 : 0)));
#pragma unroll
    for (u32 i = 0; i < GROUPS * PIECES; i++) {  // the warpgroups' first pieces first
      u32 at = i % GROUPS * PIECES + i / GROUPS, bar = there + (EACH ? at * 8 : 0);
      u32 to = weights + at * PIECE_BYTES, column = (block * GROUPS * PIECES + at) * PIECE;
      if (EACH) bar_expect(bar, PIECE_BYTES);
      fetch_box(to, &g.weights, column, column_of(tile, 0), bar);
      fetch_box(to + HALF * 128, &g.weights, column, column_of(tile, HALF / 8), bar);
    }
  }
  if (!LATE) next_may_start();
  cluster_arrive_relaxed();  // barriers are made, and nothing else was written
  // What the kernels in front do not write.
  Float2 bias[OWN], channel[OWN];
#if EPILOGUE == RESIDUAL
  Float2 gate[OWN], next[OWN];
#endif
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
  Float2 cosine[OWN / 2][2], sine[OWN / 2][2];
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
  cluster_wait();  // all have their barriers; before the others are done, for it empties a cache
  others_done();

#if NORM  // of this share; a row's four lanes read them in turn
  Float2 squares[DEPTH / 32];
#pragma unroll
  for (u32 i = 0; i < DEPTH / 32; i++)
    squares[i] = live ? *squares_at(g.squares, rank * (DEPTH / 8) + i * 4 + q, tid) : Float2{};
#endif
#if BYTES
  u32 operands[STEPS / 2][4];  // 32 columns in a step
#pragma unroll
  for (int i = 0; i < STEPS / 2; i++) {
    Word4 w = live ? g.in[(rank * (STEPS / 2) + i) * 128 + tid] : Word4{};
#pragma unroll
    for (int e = 0; e < 4; e++) operands[i][e] = w.v[e];
  }
#else
  u32 a[STEPS][4];
  load_share(a, g.in, rank, tid, live);
#endif
#if NORM
  float mine[2] = {};
#pragma unroll
  for (u32 i = 0; i < DEPTH / 32; i++)
#pragma unroll
    for (int h = 0; h < 2; h++) mine[h] += squares[i].v[h];
  hold(mine);  // so that their registers are free
#endif

#if FP8 && !BYTES
  u32 operands[STEPS / 2][4];
#pragma unroll
  for (int i = 0; i < STEPS / 2; i++) narrow(a[i * 2], a[i * 2 + 1], operands[i]);
#elif !FP8
  const auto& operands = a;
#endif

  const u64 matrix = by_rows(weights + own_group * SHARE_BYTES);
  float sum[COLUMNS / 2];
#pragma unroll
  for (int piece = 0; piece < PIECES; piece++) {
    // Behind a wait that a warp may leave later than another, products begin anew: those of a group
    // that is already open would be made one after the other (ptxas, C7520).
    if (EACH || piece == 0) {
      bar_wait(there + (EACH ? (own_group * PIECES + piece) * 8 : 0), 0);
      products_begin();
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const u64 weight = further(matrix, piece * PIECE_BYTES + i * 32);
      if (piece + i == 0)
        product_anew(sum, operands[0], weight);
      else
        product(sum, operands[piece * 4 + i], weight);
    }
    if (EACH || piece == PIECES - 1) products_commit();
  }
  if (LATE) next_may_start();
#if NORM
#pragma unroll
  for (int h = 0; h < 2; h++) mine[h] = quad_sum(mine[h]);
#endif
  products_wait();
  hold(sum);

#if GROUPS > 1
  leave_inside(sum, dynamic, own_group, tid);
#if NORM
  if (q == 0) {
    float* to = (float*)(dynamic + (statistics_at(statistics, rank, tid) - weights));
#pragma unroll
    for (int h = 0; h < 2; h++) to[h] = mine[h];
  }
#endif
  __syncthreads();
#endif
  Part part;
  pick_own(part, sum, own_group);
#if GROUPS > 1
  add_left(part, dynamic, own_group, tid);
#endif

  // Inside the cluster: to the owners.
  float own[OWN][4];
#pragma unroll
  for (u32 owner = 0; owner < BLOCKS; owner++) {
    if (owner == block) {
#pragma unroll
      for (u32 j = 0; j < OWN; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) own[j][e] = part[owner][j][e];
    } else if (live) {
      u32 there = remote(joined, owner);
      put_part(part[owner], received, own_group, block, owner, tid, there);
#if NORM
      if (q == 0) put_async2(remote(statistics_at(statistics, rank, tid), owner), mine, there);
#endif
    }
  }
#if EPILOGUE == RESIDUAL
  const u32 lanes = __ballot_sync(~0u, live);
#endif
  if (!live) return;
#if EPILOGUE == RESIDUAL
  Float4 old[OWN];
#pragma unroll
  for (u32 j = 0; j < OWN; j++) {
    old[j] = {};
    if (g.old) old[j] = *group_at(g.old, column_of(tile, owned(rank, j)), tid);
  }
#endif
  if (BLOCKS > 1) bar_wait_cluster(joined, 0);
  add_received(own, dynamic + (received - weights) + own_group * RECEIVED_BYTES, tid);
#if NORM
  const float* told = (const float*)(dynamic + (statistics_at(statistics, 0, tid) - weights));
  float inverse[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float square = 0.0f;
#pragma unroll
    for (u32 r = 0; r < RANKS; r++)
      square += r == rank ? mine[h] : told[r * 64 + h];
    inverse[h] = rsqrt_(square * (1.0f / K) + g.eps * (COPY * COPY));
  }
#endif
#pragma unroll
  for (u32 j = 0; j < OWN; j++) {
#pragma unroll
    for (int e = 0; e < 4; e++) {
      if (FP8) own[j][e] *= channel[j].v[e & 1];
#if NORM
      own[j][e] *= inverse[e >> 1];
#endif
      own[j][e] += bias[j].v[e & 1];
    }
  }

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
        float x = one[h * 2 + e], y = two[h * 2 + e], c = cosine[j][h].v[e], s = sine[j][h].v[e];
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
    for (int e = 0; e < 4; e++) old[j].v[e] += gate[j].v[e & 1] * own[j][e];
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
    for (int e = 0; e < 4; e++) old[j].v[e] *= next[j].v[e & 1];
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
