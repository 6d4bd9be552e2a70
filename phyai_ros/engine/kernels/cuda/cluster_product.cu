// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// y = epilogue(norm(x) W^T), 64 rows at most. A cluster of BLOCKS makes 2 HALF columns; each of its
// RANKS warpgroups takes a share of the depth, then they leave each other partial sums, and each
// finishes the columns it owns. All of a block's weights are asked for at once, before the kernel in
// front has ended.
//
// Defined outside: N, K of W [N, K]; BLOCKS, GROUPS (warpgroups of a block), HALF; NORM (0, RMS or
// LAYER), EPILOGUE and what it needs.

#define RMS 1
#define LAYER 2
#define ROPE 1      // packed queries, keys, values of HEADS heads of D and one pair of key and value
#define RESIDUAL 2  // x += gate (y + bias)
#define GATED 3     // rows of W: gates, then as many ups -> act(gate) up
#define LINEAR 4    // act(y + bias); ROW_MAJOR: [rows, N] instead of fragments
#define GELU 1
#define SILU 2

#ifndef REGISTERS
#define REGISTERS 224
#endif
#ifndef ACTIVATION
#define ACTIVATION 0
#endif
#ifndef ROW_MAJOR
#define ROW_MAJOR 0
#endif
#ifndef D
#define D 256
#define HEADS 8
#endif
#define RANKS (BLOCKS * GROUPS)
#define PAIRED (EPILOGUE == ROPE || EPILOGUE == GATED)
#define COLUMNS (2 * HALF)
#define DEPTH (K / RANKS)
#define CHUNKS (DEPTH / 64)
#define STEPS (DEPTH / 16)
#define OWN (COLUMNS / 8 / RANKS)
#define CHUNK_BYTES (COLUMNS * 128)
#define WEIGHT_BYTES (GROUPS * CHUNKS * CHUNK_BYTES)
#define RECEIVED_BYTES ((RANKS - 1) * OWN * 2048)
#define STATISTICS_BYTES (RANKS * 64 * 8)
#define THREADS (GROUPS * 128)

static_assert(K % (64 * RANKS) == 0 && COLUMNS % (8 * RANKS) == 0, "shares in chunks and groups");
static_assert(!PAIRED || OWN % 2 == 0, "an owner has both halves of a pair");
static_assert(N % COLUMNS == 0, "whole tiles");

struct Given {
  TensorMap weights;   // boxes of HALF rows
  const void* in;      // K columns: groups in front of a norm, else fragments
  const float* scale;  // of the norm, [K]; null for ones
  const float* sums;   // LAYER: of each rank's share of scale W^T, [RANKS][N]
  const float* bias;   // [N] or null
  const float* gate;   // [N] or null
  float* x;            // RESIDUAL: groups of N columns, changed in place
  u16* out;            // fragments; ROPE: of the queries
  u16* key;            // ROPE: rows of D, the first that is written
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

// The j-th group that a rank owns.
DEV constexpr u32 owned(u32 rank, u32 j) {
  return !PAIRED ? rank * OWN + j
         : j < OWN / 2 ? rank * (OWN / 2) + j
                       : HALF / 8 + rank * (OWN / 2) + j - OWN / 2;
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

// A thread's share of the 8 columns from `column` on.
DEV Float4* group_at(float* x, u32 column, u32 tid) { return (Float4*)x + (column >> 3) * 128 + tid; }
DEV void put_fragment(u16* to, u32 column, u32 tid, const float* v) {
  ((Word2*)to)[((column >> 4) * 128 + tid) * 2 + ((column >> 3) & 1)] = {pack(v[0], v[1]),
                                                                        pack(v[2], v[3])};
}

// Mean and sum of squared deviations of a thread's two rows, over this rank's share; without a mean,
// the sum of squares.
struct Statistics {
  float mean[2], square[2];
};

extern "C" __global__ void __maxnreg__(REGISTERS) cluster_product(const __grid_constant__ Given g) {
  extern __shared__ u8 dynamic[];
  const u32 tid = threadIdx.x & 127, own_group = GROUPS == 1 ? 0 : threadIdx.x >> 7;
  const u32 lane = tid & 31, row = (tid >> 5) * 16 + (lane >> 2), q = lane & 3;
  const u32 block = cluster_rank(), rank = block * GROUPS + own_group, tile = blockIdx.x / BLOCKS;
  const u32 weights = (shared_of(dynamic) + 1023) & ~1023u;
  const u32 received = weights + WEIGHT_BYTES, statistics = received + GROUPS * RECEIVED_BYTES;
  const u32 bar = statistics + STATISTICS_BYTES;
  float* scales = (float*)(dynamic + (bar + 16 - shared_of(dynamic)));

  if (threadIdx.x == 0) {
    bar_init(bar, 1);
    bars_made();
    bar_expect(bar, WEIGHT_BYTES);
#pragma unroll
    for (u32 i = 0; i < GROUPS * CHUNKS; i++) {
      u32 to = weights + i * CHUNK_BYTES, column = block * GROUPS * DEPTH + i * 64;
      fetch_box(to, &g.weights, column, column_of(tile, 0), bar);
      fetch_box(to + HALF * 128, &g.weights, column, column_of(tile, HALF / 8), bar);
    }
  }
  next_may_start();
  cluster_arrive();
  // What the kernels in front do not write.
  Float2 bias[OWN];
#if EPILOGUE == RESIDUAL
  Float2 gate[OWN];
#endif
#pragma unroll
  for (u32 j = 0; j < OWN; j++) {
    u32 column = column_of(tile, owned(rank, j)) + q * 2;
    bias[j] = g.bias ? *(const Float2*)(g.bias + column) : Float2{0.0f, 0.0f};
#if EPILOGUE == RESIDUAL
    gate[j] = g.gate ? *(const Float2*)(g.gate + column) : Float2{1.0f, 1.0f};
#endif
  }
#if NORM
  for (u32 i = threadIdx.x; i < GROUPS * DEPTH; i += THREADS)
    scales[i] = g.scale ? g.scale[block * GROUPS * DEPTH + i] : 1.0f;
  scales += own_group * DEPTH;
#endif
  __syncthreads();
  others_done();

  u32 a[STEPS][4];
#if NORM
  Statistics mine = {};
  float back[2];
  {
    float v[STEPS][8];
    const Float4* in = (const Float4*)g.in + rank * STEPS * 256 + tid;
#pragma unroll
    for (int i = 0; i < STEPS; i++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        Float4 f = row < g.rows ? in[(i * 2 + h) * 128] : Float4{};
#pragma unroll
        for (int e = 0; e < 4; e++) v[i][h * 4 + e] = f.v[e];
      }
#if NORM == LAYER
    float sum[2] = {};
#pragma unroll
    for (int i = 0; i < STEPS; i++)
#pragma unroll
      for (int e = 0; e < 8; e++) sum[(e >> 1) & 1] += v[i][e];
#pragma unroll
    for (int h = 0; h < 2; h++) mine.mean[h] = quad_sum(sum[h]) * (1.0f / DEPTH);
#endif
    float square[2] = {}, factor[2];
#pragma unroll
    for (int i = 0; i < STEPS; i++)
#pragma unroll
      for (int e = 0; e < 8; e++) {
        v[i][e] -= mine.mean[(e >> 1) & 1];
        square[(e >> 1) & 1] += v[i][e] * v[i][e];
      }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      mine.square[h] = quad_sum(square[h]);
      // The share's own scale keeps 16 bits in range; the whole row's takes its place at the end.
      float mean = mine.square[h] * (1.0f / DEPTH) + g.eps;
      factor[h] = rsqrt_(mean);
      back[h] = mean * factor[h];
    }
#pragma unroll
    for (int i = 0; i < STEPS; i++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        Float2 s = *(const Float2*)(scales + i * 16 + h * 8 + q * 2);
#pragma unroll
        for (int r = 0; r < 2; r++) {
          const float* two = v[i] + h * 4 + r * 2;
          a[i][h * 2 + r] = pack(two[0] * factor[r] * s.v[0], two[1] * factor[r] * s.v[1]);
        }
      }
  }
#else
  const Word4* in = (const Word4*)g.in + rank * STEPS * 128 + tid;
#pragma unroll
  for (int i = 0; i < STEPS; i++) {
    Word4 w = row < g.rows ? in[i * 128] : Word4{};
#pragma unroll
    for (int e = 0; e < 4; e++) a[i][e] = w.v[e];
  }
#endif

  const u32 mine_at = weights + own_group * CHUNKS * CHUNK_BYTES;
  float sum[COLUMNS / 2] = {};
  bar_wait(bar, 0);
  products_begin();
#pragma unroll
  for (int i = 0; i < STEPS; i++)
    product(sum, a[i], by_rows(mine_at + (i >> 2) * CHUNK_BYTES + (i & 3) * 32));
  products_commit();
  products_wait();
  hold(sum);

  // To the owners.
  float own[OWN][4];
  cluster_wait();
#pragma unroll
  for (u32 owner = 0; owner < RANKS; owner++) {
    u32 there = remote(received + owner % GROUPS * RECEIVED_BYTES, owner / GROUPS);
    u32 from = rank < owner ? rank : rank - 1;
#pragma unroll
    for (u32 j = 0; j < OWN; j++) {
      float v[4];
#pragma unroll
      for (int e = 0; e < 4; e++) {
        v[e] = sum[owned(owner, j) * 4 + e];
#if NORM
        v[e] *= back[e >> 1];
#endif
      }
      if (owner == rank) {
#pragma unroll
        for (int e = 0; e < 4; e++) own[j][e] = v[e];
      } else {
        put4(there + ((from * OWN + j) * 128 + tid) * 16, v);
      }
    }
#if NORM
    if (q == 0 && owner % GROUPS == 0) {
      u32 to = remote(statistics, owner / GROUPS) + (rank * 64 + row) * 8;
      put2(to, mine.mean[0], mine.square[0]);
      put2(to + 64, mine.mean[1], mine.square[1]);
    }
#endif
  }
  cluster_arrive();
#if EPILOGUE == RESIDUAL
  Float4 old[OWN];
#pragma unroll
  for (u32 j = 0; j < OWN; j++)
    old[j] = *group_at(g.x, column_of(tile, owned(rank, j)), tid);
#endif
  cluster_wait();
  const u8* here = dynamic + (received + own_group * RECEIVED_BYTES - shared_of(dynamic));
#pragma unroll
  for (u32 from = 0; from < RANKS - 1; from++)
#pragma unroll
    for (u32 j = 0; j < OWN; j++) {
      Float4 f = *(const Float4*)(here + ((from * OWN + j) * 128 + tid) * 16);
#pragma unroll
      for (int e = 0; e < 4; e++) own[j][e] += f.v[e];
    }
#if NORM
  const Float2* told = (const Float2*)(dynamic + (statistics - shared_of(dynamic)));
  float inverse[2];
#if NORM == LAYER
  float apart[RANKS][2];  // each share's mean from the whole row's
#endif
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float square = 0.0f, mean = 0.0f;
#pragma unroll
    for (u32 r = 0; r < RANKS; r++) {
      Float2 f = told[r * 64 + row + h * 8];
      mean += f.v[0] * (1.0f / RANKS);
      square += f.v[1];
    }
#if NORM == LAYER
#pragma unroll
    for (u32 r = 0; r < RANKS; r++) {
      apart[r][h] = told[r * 64 + row + h * 8].v[0] - mean;
      square += DEPTH * apart[r][h] * apart[r][h];
    }
#endif
    inverse[h] = rsqrt_(square * (1.0f / K) + g.eps);
  }
#endif
#pragma unroll
  for (u32 j = 0; j < OWN; j++) {
#if NORM == LAYER
#pragma unroll
    for (u32 r = 0; r < RANKS; r++) {
      Float2 s = *(const Float2*)(g.sums + r * N + column_of(tile, owned(rank, j)) + q * 2);
#pragma unroll
      for (int e = 0; e < 4; e++) own[j][e] += apart[r][e >> 1] * s.v[e & 1];
    }
#endif
#pragma unroll
    for (int e = 0; e < 4; e++) {
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
      u32 r = row + h * 8;
      if (r >= g.rows || head > HEADS) continue;
      Float2 cosine = *(const Float2*)(g.cosine + r * D + d);
      Float2 sine = *(const Float2*)(g.sine + r * D + d);
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float x = one[h * 2 + e], y = two[h * 2 + e];
        one[h * 2 + e] = x * cosine.v[e] - y * sine.v[e];
        two[h * 2 + e] = y * cosine.v[e] + x * sine.v[e];
      }
    }
    if (head < HEADS) {
      put_fragment(g.out, column, tid, one);
      put_fragment(g.out, column + D / 2, tid, two);
      continue;
    }
    u16* cache = head == HEADS ? g.key : g.value;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      u32 r = row + h * 8;
      if (r >= g.rows) continue;
      *(u32*)(cache + r * D + d) = pack(one[h * 2], one[h * 2 + 1]);
      *(u32*)(cache + r * D + D / 2 + d) = pack(two[h * 2], two[h * 2 + 1]);
    }
  }
#elif EPILOGUE == RESIDUAL
#pragma unroll
  for (u32 j = 0; j < OWN; j++) {
#pragma unroll
    for (int e = 0; e < 4; e++) old[j].v[e] += gate[j].v[e & 1] * own[j][e];
    *group_at(g.x, column_of(tile, owned(rank, j)), tid) = old[j];
  }
#elif EPILOGUE == GATED
#pragma unroll
  for (u32 j = 0; j < OWN / 2; j++) {
#pragma unroll
    for (int e = 0; e < 4; e++) own[j][e] = activate(own[j][e]) * own[OWN / 2 + j][e];
    put_fragment(g.out, column_of(tile, owned(rank, j)), tid, own[j]);
  }
#else
#pragma unroll
  for (u32 j = 0; j < OWN; j++) {
    u32 column = column_of(tile, owned(rank, j));
#pragma unroll
    for (int e = 0; e < 4; e++) own[j][e] = activate(own[j][e]);
#if ROW_MAJOR
#pragma unroll
    for (int h = 0; h < 2; h++) {
      u32 r = row + h * 8;
      if (r < g.rows)
        *(u32*)(g.out + r * N + column + q * 2) = pack(own[j][h * 2], own[j][h * 2 + 1]);
    }
#else
    put_fragment(g.out, column, tid, own[j]);
#endif
  }
#endif
}
