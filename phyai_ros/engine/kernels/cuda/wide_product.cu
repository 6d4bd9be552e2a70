// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// y = x W^T for some hundred rows: a block makes COLUMNS columns of 128 rows over its share of the
// depth, each of two warpgroups 64 rows. All of its weights are asked for at once, before the kernel
// in front has ended; x comes behind, 64 columns of it at a time. Two blocks of a cluster, for columns
// side by side, bring half of x each for both: what all blocks together read of it from L2 is what
// limits them.
//
// Defined outside: COLUMNS, DEPTH (a multiple of 64), SPLITS of the depth, SHARING (blocks of a
// cluster, 1 or 2), STAGES (of x, DEPTH / 64 at most), GATED with ACTIVATION (of COLUMNS rows of W half
// are gates, half ups -> act(gate) up, in 16 bits; else parts of the sum over the depth, in float32).

#define GROUPS 2
#define ROWS (GROUPS * 64)
#define SHARE (ROWS / SHARING)  // rows of x that a block brings
#define CHUNKS (DEPTH / 64)
#define BOX_ROWS (GATED ? COLUMNS / 2 : COLUMNS)
#define CHUNK_BYTES (COLUMNS * 128)
#define STAGE_BYTES (ROWS * 128)
#define STAGES_AT (CHUNKS * CHUNK_BYTES)
#define BARS (STAGES_AT + STAGES * STAGE_BYTES)
#define GELU 1
#define SILU 2

static_assert(DEPTH % 64 == 0 && BOX_ROWS % 8 == 0 && STAGES <= CHUNKS, "whole boxes");
static_assert(!GATED || SPLITS == 1, "an activation needs the whole sum");

struct Given {
  TensorMap x, weights;  // [rows, K], boxes of SHARE rows; [N, K], boxes of BOX_ROWS rows
  void* out;             // parts [SPLITS, rows, N], or [rows, N / 2]
  u32 rows, n;
};

extern "C" __global__ void __launch_bounds__(GROUPS * 128)
    wide_product(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 tid = threadIdx.x & 127, lane = tid & 31, quad = lane & 3;
  const u32 group = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // of a whole warp
  const u32 tiles = g.n / COLUMNS, tile = blockIdx.x % tiles;
  const u32 split = blockIdx.x / tiles % SPLITS, first = blockIdx.x / tiles / SPLITS * ROWS;
  const u32 start = shared_of(memory), stages = start + STAGES_AT, weights_there = start + BARS;
  const u32 full = weights_there + 8, read = full + STAGES * 8;

  auto ask = [&](u32 chunk) {  // for columns of x, of which the other block asks for half as well
    u32 bar = full + chunk % STAGES * 8, column = split * DEPTH + chunk * 64;
    u32 to = stages + chunk % STAGES * STAGE_BYTES;
    bar_expect(bar, STAGE_BYTES);
#if SHARING == 1
    fetch_box(to, &g.x, column, first, bar);
#else
    u32 own = cluster_rank() * SHARE;
    fetch_box_for(3, to + own * 128, &g.x, column, first + own, bar);
#endif
  };
  auto release = [&](u32 chunk) {  // what a warp has read
    u32 bar = read + chunk % STAGES * 8;
    if (lane == 0) bar_arrive(bar);
#if SHARING == 2
    if (lane == 0) bar_arrive_remote(remote(bar, cluster_rank() ^ 1));
#endif
  };
  if (threadIdx.x == 0) {
    bar_init(weights_there, 1);
#pragma unroll
    for (u32 i = 0; i < STAGES; i++) {
      bar_init(full + i * 8, 1);
      bar_init(read + i * 8, SHARING * GROUPS * 4);  // warps
    }
    bars_made();
    bar_expect(weights_there, CHUNKS * CHUNK_BYTES);
    for (u32 i = 0; i < CHUNKS; i++) {
      u32 to = start + i * CHUNK_BYTES, column = split * DEPTH + i * 64;
      fetch_box(to, &g.weights, column, tile * BOX_ROWS, weights_there);
#if GATED
      fetch_box(to + BOX_ROWS * 128, &g.weights, column, g.n / 2 + tile * BOX_ROWS, weights_there);
#endif
    }
    prefetch_map(&g.x);
  }
  next_may_start();
  // Barriers are made, the other block's too.
#if SHARING == 1
  __syncthreads();
#else
  cluster_arrive_relaxed();
  cluster_wait();
#endif
  others_done();
  if (threadIdx.x == 0)
    for (u32 i = 0; i < STAGES; i++) ask(i);
  __syncwarp();

  float sum[COLUMNS / 2] = {};
  bar_wait(weights_there, 0);
#pragma unroll 1
  for (u32 chunk = 0; chunk < CHUNKS; chunk++) {
    const u32 at = stages + chunk % STAGES * STAGE_BYTES + group * (64 * 128);
    bar_wait(full + chunk % STAGES * 8, chunk / STAGES & 1);
    products_begin();
#pragma unroll
    for (u32 i = 0; i < 4; i++)
      product(sum, by_rows(at + i * 32), by_rows(start + chunk * CHUNK_BYTES + i * 32));
    products_commit();
    if (STAGES < CHUNKS && chunk > 0) {
      products_wait_but<1>();  // the stage in front has been read
      release(chunk - 1);
      if (threadIdx.x == 0 && chunk - 1 + STAGES < CHUNKS) {
        bar_wait(read + (chunk - 1) % STAGES * 8, (chunk - 1) / STAGES & 1);
        ask(chunk - 1 + STAGES);
      }
      __syncwarp();
    }
  }
  products_wait();
  hold(sum);
#if SHARING == 2
  cluster_arrive();  // nothing of the other block's comes here any more, once it has been here too
#endif

  const u32 row = first + group * 64 + (tid >> 5) * 16 + (lane >> 2);
#pragma unroll
  for (u32 h = 0; h < 2; h++) {
    const u32 r = row + h * 8;
    if (r >= g.rows) continue;
#if GATED
    u16* to = (u16*)g.out + (u64)r * (g.n / 2) + tile * BOX_ROWS + quad * 2;
#pragma unroll
    for (u32 i = 0; i < BOX_ROWS / 8; i++) {
      const float *gate = sum + i * 4 + h * 2, *up = gate + BOX_ROWS / 2;
#if ACTIVATION == GELU
      *(u32*)(to + i * 8) = pack(gelu_tanh(gate[0]) * up[0], gelu_tanh(gate[1]) * up[1]);
#elif ACTIVATION == SILU
      *(u32*)(to + i * 8) = pack(silu(gate[0]) * up[0], silu(gate[1]) * up[1]);
#endif
    }
#else
    float* to = (float*)g.out + ((u64)split * g.rows + r) * g.n + tile * COLUMNS + quad * 2;
#pragma unroll
    for (u32 i = 0; i < COLUMNS / 8; i++)
      *(Float2*)(to + i * 8) = {sum[i * 4 + h * 2], sum[i * 4 + h * 2 + 1]};
#endif
  }
#if SHARING == 2
  __syncwarp();
  cluster_wait();
#endif
}
