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
    for (u32 i = 0; i < GROUPS * PIECES; i++) {
      u32 at = piece_at(i), bar = there + (EACH ? at * 8 : 0);
      u32 to = weights + at * PIECE_BYTES, column = (block * GROUPS * PIECES + at) * PIECE;
      if (EACH) bar_expect(bar, PIECE_BYTES);
      fetch_box(to, &g.weights, column, column_of(tile, 0), bar);
      fetch_box(to + HALF * 128, &g.weights, column, column_of(tile, HALF / 8), bar);
    }
  }
  if (!LATE) next_may_start();
  cluster_arrive_relaxed();  // barriers are made, and nothing else was written
  Beside with;
  with.load(g, tile, rank, row, q);
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
    multiply_piece(sum, operands, matrix, piece);
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
  to_owners(own, part, received, joined, own_group, block, tid, live, [&](u32 owner, u32 bar) {
#if NORM
    if (q == 0) put_async2(remote(statistics_at(statistics, rank, tid), owner), mine, bar);
#endif
  });
  const u32 lanes = EPILOGUE == RESIDUAL ? __ballot_sync(~0u, live) : 0;
  if (!live) return;
  Float4 old[OWN];
#if EPILOGUE == RESIDUAL
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
      if (FP8) own[j][e] *= with.channel[j].v[e & 1];
#if NORM
      own[j][e] *= inverse[e >> 1];
#endif
      own[j][e] += with.bias[j].v[e & 1];
    }
  }

  finish(own, with, old, g, tile, rank, tid, row, q, lanes);
}
