// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// activation(x G^T) * (x U^T) of many rows x: the product of the weights with the transposed rows, so
// that the rows, of which there are few hundred, are the columns of the tile, which come in eights.
// Each of two warpgroups has 64 rows of weights that are gates and the 64 that are the same channels'
// ups, so that a lane has a channel's gate and its up.
//
// Blocks stay, and take tiles one behind the other, rows of x first: the tiles that are multiplied at
// a time share their weights. A cluster of two takes two tiles of channels side by side; each block
// brings half of their rows of x for both. The second warpgroup begins LAG steps of the depth later, so
// that one multiplies while the other makes its activations.
//
// E4M3 numbers (FP8) have a factor a row of x and a power of two a row of weights. The tensor cores'
// registers hold about 14 bits of their sums, where the numbers themselves hold four. They may leave
// E5M2 (BYTES), whose rows need no factor: then of each sixteen channels the even ones are brought in
// front of the odd ones, so that a lane has two that are neighbours.
//
// Defined outside: COLUMNS (a multiple of 8, 208 at most), FIRST (of them, those that block 0 of a
// cluster brings, a multiple of 8), PLACES in the ring, CLUSTER (1 or 2), SILU, LAG, FP8, BYTES.

#define DEPTH (FP8 ? 128 : 64)  // of a step: 128 bytes
#define CHANNELS (READERS * 64)
#define WEIGHT_BYTES (2 * CHANNELS * 128)
#define PLACE_BYTES (WEIGHT_BYTES + COLUMNS * 128)
#define OUT_LINE (BYTES ? 64 : 128)
#define OUT_BYTES (COLUMNS * OUT_LINE)  // of a warpgroup's channels
#define OUTS (PLACES * PLACE_BYTES)
#define BARS (OUTS + READERS * OUT_BYTES)

static_assert(COLUMNS % 8 == 0 && COLUMNS <= 208, "a warpgroup's sums are its registers");
static_assert(FIRST % 8 == 0 && FIRST <= COLUMNS, "boxes begin where their swizzle does");
static_assert(LAG < PLACES, "the other warpgroup is waited for");

struct Given {
  TensorMap weight;       // [2 x channels, depth], boxes of CHANNELS x DEPTH; BYTES: evens, odds
  TensorMap x, x_rest;    // [rows, depth], boxes of FIRST and of COLUMNS - FIRST rows
  TensorMap out;          // [rows, channels], boxes of COLUMNS x 64
  const float* factors;   // FP8: [rows]
  const signed char* exponents;  // FP8: of gates, then of ups, [2 x channels]
  u32 rows, channels;
  u32 steps;   // depth / DEPTH
  u32 across;  // tiles of rows of x
  u32 tiles;   // of a cluster's, all
};

struct Block {
  u32 memory, rank, cluster, clusters;
  DEV u32 place(u32 i) const { return memory + i * PLACE_BYTES; }
  DEV u32 full(u32 i) const { return memory + BARS + i * 16; }
  DEV u32 empty(u32 i) const { return full(i) + 8; }
  // Of the cluster's tile t: the first channel of this block; the first row of x.
  DEV u32 channel(u32 t, u32 across) const { return (t / across * CLUSTER + rank) * CHANNELS; }
  DEV u32 row(u32 t, u32 across) const { return t % across * COLUMNS; }
};

DEV void bring_weights(u32 to, const Given& g, u32 column, u32 row, u32 full) {
  if (BYTES)
    fetch_head(to, &g.weight, column, 0, 0, row / 16, full);
  else
    fetch_box(to, &g.weight, column, row, full);
}

DEV void bring(const Block& b, const Given& g) {
  others_done();
  Ring<PLACES> ring;
  for (u32 t = b.cluster; t < g.tiles; t += b.clusters) {
    const u32 channel = b.channel(t, g.across), row = b.row(t, g.across);
    for (u32 k = 0; k < g.steps; k++) {
      const u32 full = b.full(ring.place), weights = b.place(ring.place), x = weights + WEIGHT_BYTES;
      bar_wait(b.empty(ring.place), ring.parity ^ 1);
      bar_expect(full, PLACE_BYTES);
      bring_weights(weights, g, k * DEPTH, channel, full);
      bring_weights(weights + WEIGHT_BYTES / 2, g, k * DEPTH, g.channels + channel, full);
#if CLUSTER == 2
      if (b.rank == 0)
        fetch_box_for(3, x, &g.x, k * DEPTH, row, full);
      else
        fetch_box_for(3, x + FIRST * 128, &g.x_rest, k * DEPTH, row + FIRST, full);
#else
      fetch_box(x, &g.x, k * DEPTH, row, full);
#endif
      ring.next();
    }
  }
  // The other block tells this one's barriers what it has read: not behind this block's end.
  for (u32 i = 0; i < PLACES; i++) {
    bar_wait(b.empty(ring.place), ring.parity ^ 1);
    ring.next();
  }
}

// activation(gate) * up for two columns, with one reciprocal for both.
DEV Float2 activated(float gate0, float gate1, float up0, float up1) {
#if SILU
  float u0 = gate0 * -1.4426950408889634f, u1 = gate1 * -1.4426950408889634f;
#else
  const float one = -1.4426950408889634f * 1.5957691216057308f, cube = one * 0.044715f;
  float u0 = gate0 * (one + cube * gate0 * gate0), u1 = gate1 * (one + cube * gate1 * gate1);
#endif
  // 2^60 stands for what is more: the product of two is finite, and the quotient is nothing.
  float d0 = 1.0f + exp2_(fminf(u0, 60.0f)), d1 = 1.0f + exp2_(fminf(u1, 60.0f));
  float inverse = reciprocal(d0 * d1);
  return {gate0 * up0 * (d1 * inverse), gate1 * up1 * (d0 * inverse)};
}

DEV float power(int exponent) { return __int_as_float((exponent + 127) << 23); }

// What a lane's sums are multiplied by: its channel's gate and up; the rows of x.
struct Scales {
  float gate, up;
  DEV Scales(const Given& g, u32 channel) {
    if (!FP8) return;
    gate = power(g.exponents[channel]), up = power(g.exponents[g.channels + channel]);
  }
  DEV Float2 activated(const float* gates, const float* ups, const Float2& rows) const {
    if (!FP8) return ::activated(gates[0], gates[1], ups[0], ups[1]);
    const float one = rows.v[0], other = rows.v[1];
    return ::activated(gates[0] * (gate * one), gates[1] * (gate * other), ups[0] * (up * one),
                       ups[1] * (up * other));
  }
};

// Factors of two rows of x, from the tile's first on; of those that there are not, some other's.
DEV Float2 factors_of(const float* rows, u32 left, u32 column) {
  if (!FP8) return {};
  return {rows[column < left ? column : 0], rows[column + 1 < left ? column + 1 : 0]};
}

// `count` groups of 8 columns from the j-th on, where a line's piece of 16 bytes is to be. word(j): a
// lane's 16 bits for each of two columns of the j-th group.
template <int count, typename Word>
DEV void put_groups(u32 j, u32 out, u32 piece, Word word) {
  const u32 column = j * 8 + (threadIdx.x & 31);
  u32 words[count];
#pragma unroll
  for (u32 m = 0; m < count; m++) words[m] = word(j + m);
  const u32 swizzle = BYTES ? column >> 1 & 3 : column & 7;
  put_transposed<count>(out + column * OUT_LINE + ((piece ^ swizzle) << 4), words);
}
template <typename Word>
DEV void put_piece(u32 out, u32 piece, Word word) {
#pragma unroll
  for (u32 j = 0; j + 4 <= COLUMNS / 8; j += 4) put_groups<4>(j, out, piece, word);
  if constexpr (COLUMNS / 8 & 2) put_groups<2>(COLUMNS / 8 & ~3, out, piece, word);
  if constexpr (COLUMNS / 8 & 1) put_groups<1>(COLUMNS / 8 - 1, out, piece, word);
}

// A warpgroup's products of one tile. brought: waits for the step's place and gives it; read: gives it
// back; begun: once the first of a step's products are asked for.
template <typename Brought, typename Read, typename Begun>
DEV void multiply(float (&sum)[2][COLUMNS / 2], u32 steps, u32 group, Brought brought, Read read,
                  Begun begun) {
#pragma unroll
  for (u32 h = 0; h < 2; h++)
#pragma unroll
    for (u32 i = 0; i < COLUMNS / 2; i++) sum[h][i] = 0.0f;
  u32 before = 0;
  for (u32 k = 0; k < steps; k++) {
    const u32 place = brought(), weights = place + group * 8192;
    const u32 x = place + WEIGHT_BYTES;
    auto two = [&](u32 first) {
      products_begin();
#pragma unroll
      for (u32 i = first; i < first + 2; i++)
#pragma unroll
        for (u32 h = 0; h < 2; h++)
          product(sum[h], by_rows(weights + h * (WEIGHT_BYTES / 2) + i * 32), by_rows(x + i * 32));
      products_commit();
    };
    two(0);
    begun(k);
    products_wait_but<1>();  // the step in front is done
    if (k) read(before);
    two(2);
    before = place;
  }
  products_wait();
  read(before);  // and then what the sums are used for
#pragma unroll
  for (u32 h = 0; h < 2; h++) hold(sum[h]);
}

DEV void multiply_all(const Block& b, const Given& g, u32 group) {
  const u32 tid = threadIdx.x % WARPGROUP, warp = tid >> 5, lane = tid & 31;
  const u32 out = b.memory + OUTS + group * OUT_BYTES;
  Ring<PLACES> ring;
  auto brought = [&] {
    bar_wait(b.full(ring.place), ring.parity);
    const u32 place = b.place(ring.place);
    ring.next();
    return place;
  };
  auto read = [&](u32 place) {  // this warp's products; told wherever it was brought from
    const u32 empty = b.empty((place - b.memory) / PLACE_BYTES);
#if CLUSTER == 2
    if (lane < CLUSTER) bar_arrive_remote(remote(empty, lane));
#else
    if (lane == 0) bar_arrive(empty);
#endif
  };
  if (LAG && group == 1) meet(1, READERS * WARPGROUP);
  bool ahead = LAG && group == 0;  // the other warpgroup waits for this one
  auto begun = [&](u32 k) {
    if (!ahead || k + 1 != LAG) return;
    tell(1, READERS * WARPGROUP);
    ahead = false;
  };
  for (u32 t = b.cluster; t < g.tiles; t += b.clusters) {
    const u32 channel = b.channel(t, g.across) + group * 64, row = b.row(t, g.across);
    float sum[2][COLUMNS / 2];
    multiply(sum, g.steps, group, brought, read, begun);
    // Always so; but what follows a branch the assembler does not put in front of giving back.
    if (row < g.rows) {
      if (tid == 0) stores_read();
      meet(2 + group, WARPGROUP);  // the last tile's results have left
      // Of a warp's 16 channels, as they were brought, a lane has the r-th and the r + 8-th.
      const u32 r = lane >> 2;
      auto two = [&](const Scales& scales, u32 h, u32 j) {
        const Float2 rows = factors_of(g.factors + row, g.rows - row, j * 8 + (lane & 3) * 2);
        return scales.activated(sum[0] + j * 4 + h * 2, sum[1] + j * 4 + h * 2, rows);
      };
#if BYTES
      const u32 first = channel + warp * 16 + r * 2;
      const Scales evens(g, first), odds(g, first + 1);
      put_piece(out, warp, [&](u32 j) {
        const Float2 even = two(evens, 0, j), odd = two(odds, 1, j);
        return pack_e5m2(even.v[0], odd.v[0], even.v[1], odd.v[1]);
      });
#else
#pragma unroll
      for (u32 h = 0; h < 2; h++) {
        const u32 eight = warp * 2 + h;
        const Scales scales(g, channel + eight * 8 + r);
        put_piece(out, eight, [&](u32 j) {
          const Float2 both = two(scales, h, j);
          return pack(both.v[0], both.v[1]);
        });
      }
#endif
      written_for_copies();
      meet(2 + group, WARPGROUP);
      if (tid == 0) store_box(&g.out, channel, row, out);
    }
  }
  if (tid == 0) stores_done();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gated_product(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 memory[];
  Block b;
  b.memory = shared_of(memory), b.rank = CLUSTER == 1 ? 0 : cluster_rank();
  b.cluster = blockIdx.x / CLUSTER, b.clusters = gridDim.x / CLUSTER;
  if (threadIdx.x == 0) {
    for (u32 i = 0; i < PLACES; i++) {
      bar_init(b.full(i), 1);
      bar_init(b.empty(i), CLUSTER * READERS * 4);
    }
    bars_made();
    prefetch_map(&g.weight);
    prefetch_map(&g.x);
    prefetch_map(&g.x_rest);
    prefetch_map(&g.out);
  }
  next_may_start();
  __syncthreads();
  if (CLUSTER > 1) {  // the other block's barriers are made
    cluster_arrive_relaxed();
    cluster_wait();
  }
  if (threadIdx.x < WARPGROUP) {
    fewer_registers<REGISTERS_TO_BRING>();
    if (threadIdx.x == 0) bring(b, g);
  } else {
    more_registers<REGISTERS_TO_MULTIPLY>();
    multiply_all(b, g, threadIdx.x / WARPGROUP - 1);
  }
}
