// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// y = epilogue(norm(x) W^T), 64 rows at most, sums joined in clusters (``join.cuh``). A layer norm is put
// right behind the product,
//   norm(x) W^T = (x scale W^T - mean (scale W^T summed over the depth)) / deviation,
// so that operands are read as they are; and products begin when the first piece of the weights has
// come.
//
// Defined outside, beside what ``join.cuh`` needs: N of W [N, K]; PART (columns of a statistic of x, 0
// where there is no norm); FP8 (W and what it multiplies are E4M3, ``e4m3.cuh``); RESIDUAL; GELU;
// ROW_MAJOR; REGISTERS of a thread.

#define STATISTICS_BYTES (PART ? RANKS * 512 : 0)

static_assert(N % COLUMNS == 0, "whole tiles");
#if PART
static_assert(DEPTH % PART == 0, "whole statistics");
#endif

struct Given {
  TensorMap weights;        // boxes of COLUMNS rows
  const u16* in;            // fragments of K columns; before a norm: of x scale
  const float* statistics;  // of x, as ``leave`` has them
  const float* sums;        // [N], scale W^T summed over the depth
  const float* bias;        // [N]
  const float* channels;    // FP8: [N], what rows of W are multiplied by
  u16* out;                 // y: fragments, or ROW_MAJOR [rows, N]; RESIDUAL: of x scale
  float* x;                 // RESIDUAL: groups of N columns, changed in place
  const float* scale;       // RESIDUAL: [N], of the next norm; null: ones
  float* told;              // RESIDUAL: statistics of x
  u32 rows;
  float eps;
};

extern "C" __global__ void __maxnreg__(REGISTERS) dit_product(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 tid = threadIdx.x & 127, group = GROUPS == 1 ? 0 : __shfl_sync(~0u, threadIdx.x >> 7, 0), q = tid & 3;
  const bool live = (tid >> 5) * 16 + (tid & 31) / 4 < g.rows;  // one of this thread's rows is
  const u32 block = cluster_rank(), rank = block * GROUPS + group;
  const u32 first = blockIdx.x / BLOCKS * COLUMNS, mine = first + rank * OWN * 8;
  const u32 weights = shared_of(memory), received = weights + GROUPS * SHARE_BYTES;
  const u32 statistics = received + GROUPS * RECEIVED_BYTES;
  const u32 joined = statistics + STATISTICS_BYTES, there = joined + 8;

  if (threadIdx.x == 0) {
    bar_init(joined, 1);
#pragma unroll
    for (u32 i = 0; i < GROUPS * PIECES; i++) bar_init(there + i * 8, 1);
    bars_made();
#pragma unroll
    for (u32 i = 0; i < GROUPS * PIECES; i++) {
      u32 at = piece_at(i);
      bar_expect(there + at * 8, PIECE_BYTES);
      fetch_box(weights + at * PIECE_BYTES, &g.weights, (block * GROUPS * PIECES + at) * PIECE, first,
                there + at * 8);
    }
    bar_expect(joined, (BLOCKS - 1) * GROUPS * live_pairs(g.rows) * (OWN * 64 + (PART ? 16 : 0)));
  }
  next_may_start();
  cluster_arrive_relaxed();  // barriers are made, and nothing else was written
  // What the kernels in front do not write.
  Float2 bias[OWN], channel[OWN], sums[OWN], scale[OWN];
#pragma unroll
  for (u32 j = 0; j < OWN; j++) {
    u32 column = mine + j * 8 + q * 2;
    bias[j] = *(const Float2*)(g.bias + column);
    if (FP8) channel[j] = *(const Float2*)(g.channels + column);
    if (PART) sums[j] = *(const Float2*)(g.sums + column);
    if (RESIDUAL) scale[j] = g.scale ? *(const Float2*)(g.scale + column) : Float2{1.0f, 1.0f};
  }
  cluster_wait();  // all have their barriers; before the others are done, for it empties a cache
  others_done();

  u32 a[STEPS][4];
  load_share(a, (const Word4*)g.in, rank, tid, live);
#if FP8
  u32 operands[STEPS / 2][4];
  float factor[2], back[2];
  factors(a, factor, back);
#else
  const auto& operands = a;
#endif
#if PART
  const u32 parts = DEPTH / PART;  // of this share; a row's four lanes read them in turn
  Float4 part_of[(parts + 3) / 4];
#pragma unroll
  for (u32 i = 0; i < (parts + 3) / 4; i++)
    part_of[i] = live && i * 4 + q < parts
                     ? ((const Float4*)g.statistics)[(rank * parts + i * 4 + q) * 32 + (tid >> 2)]
                     : Float4{};
#endif

  const u64 matrix = by_rows(weights + group * SHARE_BYTES);
  float sum[COLUMNS / 2];
  // Each piece begins and commits by itself: behind a wait that a warp might leave later than another,
  // products of a group that is already open are made one after the other (ptxas, C7520).
#pragma unroll
  for (int piece = 0; piece < PIECES; piece++) {
    u32 at = group * PIECES + piece;
#if FP8  // while the piece in front is multiplied
#pragma unroll
    for (int i = piece * 4; i < piece * 4 + 4; i++)
      narrow(a[i * 2], a[i * 2 + 1], operands[i], factor);
#endif
    bar_wait(there + at * 8, 0);
    products_begin();
    multiply_piece(sum, operands, matrix, piece);
    products_commit();
  }
#if PART
  float share[4] = {};  // mean, mean of the row 8 below; sums of squared deviations
#pragma unroll
  for (u32 i = 0; i < (parts + 3) / 4; i++) share[0] += part_of[i].v[0], share[1] += part_of[i].v[1];
#pragma unroll
  for (int h = 0; h < 2; h++) share[h] = quad_sum(share[h]) * (1.0f / parts);
#pragma unroll
  for (u32 i = 0; i < (parts + 3) / 4; i++)
    if (i * 4 + q < parts) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        float apart = part_of[i].v[h] - share[h];
        share[2 + h] += part_of[i].v[2 + h] + PART * apart * apart;
      }
    }
#pragma unroll
  for (int h = 0; h < 2; h++) share[2 + h] = quad_sum(share[2 + h]);
  const u32 share_at = statistics + rank * 512 + (tid >> 2) * 16;
  if (q == 0) *(Float4*)(memory + (share_at - weights)) = {share[0], share[1], share[2], share[3]};
  __syncwarp();
#endif
  products_wait();
  hold(sum);
#if FP8
#pragma unroll
  for (int i = 0; i < COLUMNS / 2; i++) sum[i] *= back[(i >> 1) & 1];
#endif

#if GROUPS > 1
  leave_inside(sum, memory, group, tid);
  __syncthreads();
#endif
  Part part;
  pick_own(part, sum, group);
#if GROUPS > 1
  add_left(part, memory, group, tid);
#endif

  // Inside the cluster: to the owners.
  float own[OWN][4];
  to_owners(own, part, received, joined, group, block, tid, live, [&](u32 owner, u32 bar) {
#if PART
    if (q == 0) put_async4(remote(share_at, owner), share, bar);
#endif
  });
  if (!live) return;
#if RESIDUAL
  Float4 old[OWN];
#pragma unroll
  for (u32 j = 0; j < OWN; j++) old[j] = *group_at(g.x, mine + j * 8, tid);
#endif
  bar_wait_cluster(joined, 0);
  add_received(own, memory + (received - weights) + group * RECEIVED_BYTES, tid);
#if PART
  const Float4* shares = (const Float4*)(memory + (statistics - weights)) + (tid >> 2);
  float mean[2] = {}, inverse[2] = {};
#pragma unroll
  for (int h = 0; h < 2; h++) {
#pragma unroll
    for (u32 r = 0; r < RANKS; r++) mean[h] += shares[r * 32].v[h] * (1.0f / RANKS);
#pragma unroll
    for (u32 r = 0; r < RANKS; r++) {
      float apart = shares[r * 32].v[h] - mean[h];
      inverse[h] += shares[r * 32].v[2 + h] + DEPTH * apart * apart;
    }
    inverse[h] = rsqrt_(inverse[h] * (1.0f / K) + g.eps);
  }
#endif
#pragma unroll
  for (u32 j = 0; j < OWN; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      if (FP8) own[j][e] *= channel[j].v[e & 1];
#if PART
      own[j][e] = (own[j][e] - mean[e >> 1] * sums[j].v[e & 1]) * inverse[e >> 1];
#endif
      own[j][e] += bias[j].v[e & 1];
#if GELU
      own[j][e] = gelu_tanh(own[j][e]);
#endif
    }

#if RESIDUAL
#pragma unroll
  for (u32 j = 0; j < OWN; j++) {
#pragma unroll
    for (int e = 0; e < 4; e++) own[j][e] += old[j].v[e];
    *group_at(g.x, mine + j * 8, tid) = {own[j][0], own[j][1], own[j][2], own[j][3]};
  }
  leave(own, scale, g.out, g.told, mine, tid);
#elif ROW_MAJOR
#pragma unroll
  for (u32 j = 0; j < OWN; j++)
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
      u32 row = (tid >> 5) * 16 + (tid & 31) / 4 + h * 8;
      if (row < g.rows)
        *(u32*)(g.out + row * N + mine + j * 8 + q * 2) = pack(own[j][h * 2], own[j][h * 2 + 1]);
    }
#else
#pragma unroll
  for (u32 j = 0; j < OWN; j++) put_fragment(g.out, mine + j * 8, tid, own[j]);
#endif
}
