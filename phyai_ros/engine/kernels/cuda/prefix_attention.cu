// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Attention of many queries of several heads that share one head of keys and values, D columns, a
// request's queries folded into rows (token, head). A cluster of two blocks has 128 rows, 64 for each
// of two warpgroups; each block attends to half of the keys, so that a key is read half as often as
// with 64 rows a block and the network to the L2 keeps up. The second warpgroup of block 0 and the
// first of block 1 send their sums to the other block, which joins the halves in the order of the
// ranks and writes.
//
// While a product of values runs, the scores of the next keys are being made, and one warpgroup makes
// its probabilities while the other multiplies.
//
// Defined outside: HELD steps of the queries that stay in registers, 8 at most (the others are read
// from shared memory each time, beside the keys); TURNS: 1 where the warpgroups take turns in asking
// for products.

typedef RowSums<D> Sums;

// Scores in place of probabilities, which begin at `top`. -> whether y is to be scaled by fade.
DEV bool probabilities(float (&s)[KEYS / 2], Sums& sums, float (&fade)[2], const u32* mask,
                       float scale, u32 quad) {
  // Two chains of each row, for each step of one waits for the last.
  float part[2][2], shift[2];
#pragma unroll
  for (u32 w = 0; w < 2; w++) {
    u32 there = mask[w];
    if (there != ~0u) {
#pragma unroll
      for (u32 i = 0; i < 16; i++)
        if (!(there >> ((i >> 2) * 8 + quad * 2 + (i & 1)) & 1)) s[w * 16 + i] = -infinity();
    }
#pragma unroll
    for (u32 h = 0; h < 2; h++) part[w][h] = s[w * 16 + h * 2];
#pragma unroll
    for (u32 i = 0; i < 16; i++)
      part[w][(i >> 1) & 1] = fmaxf(part[w][(i >> 1) & 1], s[w * 16 + i]);
  }
  const bool grown = sums.rise(part, scale, fade);
#pragma unroll
  for (int h = 0; h < 2; h++) {
    shift[h] = sums.top[h] == -infinity() ? 0.0f : sums.top[h];
  }
#pragma unroll
  for (u32 i = 0; i < 16; i++)
#pragma unroll
    for (u32 w = 0; w < 2; w++) {
      const u32 h = (i >> 1) & 1;
      float& one = s[w * 16 + i];
      one = exp2_(one * scale - shift[h]);
      part[w][h] = i == h * 2 ? one : part[w][h] + one;
    }
  sums.add(part, fade);
  return __any_sync(~0u, grown);
}

template <int steps>
DEV void add_values(float (&y)[D / 2], const u32 (&p)[KEY_STEPS][4], u32 values) {
  products_begin();
#pragma unroll
  for (int i = 0; i < steps; i++) product_by_columns(y, p[i], by_columns(values + i * 2048, KEY_BOX));
  products_commit();
}

// Both halves of the keys, and out.
DEV void join(const Block& b, const Given& g, Sums& sums, const u8* memory, u32 row, u32 tid) {
  bar_wait_cluster(b.joined(), 0);
  const Float4 other = ((const Float4*)(memory + STATISTICS))[tid];
  float own[2], others[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float top = fmaxf(sums.top[h], other.v[h * 2]);
    if (top == -infinity()) top = 0.0f;  // no key exists: zeros
    own[h] = exp2_(sums.top[h] - top);
    others[h] = exp2_(other.v[h * 2] - top);
    float total = sums.total[h] * own[h] + other.v[h * 2 + 1] * others[h];
    float inverse = total == 0.0f ? 0.0f : reciprocal(total);
    own[h] *= inverse;
    others[h] *= inverse;
  }
  const u32 quad = tid & 3;
#pragma unroll
  for (u32 k = 0; k < D / 32; k++) {
    u32 words[2][4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      const Float4 part = ((const Float4*)memory)[(k * 4 + i) * WARPGROUP + tid];
      const float* y = sums.y + (k * 4 + i) * 4;
#pragma unroll
      for (int h = 0; h < 2; h++)
        words[h][i] = pack(y[h * 2] * own[h] + part.v[h * 2] * others[h],
                           y[h * 2 + 1] * own[h] + part.v[h * 2 + 1] * others[h]);
    }
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
      exchange(words[h], quad);
      u32 here = row + h * 8;
      if (here < g.rows)
        ((Word4*)(g.out + (u64)(b.item * g.rows + here) * D))[k * 4 + quad] = {
            words[h][0], words[h][1], words[h][2], words[h][3]};
    }
  }
}

DEV void attend(const Block& b, const Given& g, u8* memory, u32 tiles, u32 count, u32 group) {
  const u32 tid = threadIdx.x % WARPGROUP, warp = tid >> 5, lane = tid & 31, quad = lane & 3;
  u32* const masks = (u32*)(memory + MASKS);
  others_done();
  // Bit k of the masks: key k of this block exists.
  const u8* exists = g.exists ? g.exists + (u64)b.item * g.keys + b.rank * g.half : nullptr;
  for (u32 w = group * 4 + warp; w < tiles * (KEYS / 32); w += READERS * 4) {
    u32 key = w * 32 + lane;
    bool there = key < count && (!exists || exists[key]);
    u32 bits = __ballot_sync(~0u, there);
    if (lane == 0) masks[w] = bits;
  }
  meet(1, READERS * WARPGROUP);

  const u32 queries = b.memory + group * 8192;
  auto read = [&](u32 place) {  // what this warp's products took from there
    if (lane == 0) bar_arrive(b.empty(place));
  };
  bar_wait(b.queries_there(), 0);
#if HELD
  u32 q[HELD][4];
#pragma unroll
  for (u32 i = 0; i < HELD; i++) {
    u32 row = warp * 16 + (lane & 15);
    load_matrices(q[i], queries + (i >> 2) * QUERY_BOX + row * 128 +
                            ((((i & 3) * 2 + (lane >> 4)) ^ (row & 7)) << 4));
  }
#endif
  float s[KEYS / 2], fade[2];
  u32 p[KEY_STEPS][4];
  Sums sums;
  Ring<PLACES> ring;
  auto scores = [&](u32 place) {
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++) s[i] = 0.0f;
    products_begin();
#pragma unroll
    for (u32 i = 0; i < STEPS; i++) {
      u64 keys = by_rows(b.place(place) + (i >> 2) * KEY_BOX + (i & 3) * 32);
#if HELD
      if (i < HELD) {
        product(s, q[i], keys);
        continue;
      }
#endif
      product(s, by_rows(queries + (i >> 2) * QUERY_BOX + (i & 3) * 32), keys);
    }
    products_commit();
  };

  auto brought = [&] {
    const u32 place = ring.place;
    bar_wait(b.full(place), ring.parity);
    ring.next();
    return place;
  };

  const u32 begin = brought();
  scores(begin);
  products_wait();
  read(begin);
  hold(s);
  probabilities(s, sums, fade, masks, g.scale, quad);
  packed(p, s);
  // The first warpgroup's turn is barrier 2, the second's 3.
  if (TURNS && group == 1 && tiles > 1) tell(2, READERS * WARPGROUP);
  for (u32 j = 1; j < tiles; j++) {
    const u32 keys = brought();
    if (TURNS) meet(2 + group, READERS * WARPGROUP);
    scores(keys);
    const u32 parity = ring.parity, values = brought();
    add_values<KEY_STEPS>(sums.y, p, b.place(values));
    if (TURNS && !(group == 1 && j + 1 == tiles)) tell(3 - group, READERS * WARPGROUP);
    products_wait_but<1>();
    read(keys);
    hold(s);
    bool grown = probabilities(s, sums, fade, masks + j * (KEYS / 32), g.scale, quad);
    sums.wait_behind(b.queries_there(), b.full(values), parity);
    products_wait();
    read(values);
    hold(sums.y);
    if (grown) sums.scale(fade);
    packed(p, s);
  }
  cluster_arrive_relaxed();  // the other block's sums may take the queries' place
  const u32 values = b.place(brought());
  // Of the last tile, half may lie behind the keys.
  if (count - (tiles - 1) * KEYS <= KEY_STEPS / 2 * 16)
    add_values<KEY_STEPS / 2>(sums.y, p, values);
  else
    add_values<KEY_STEPS>(sums.y, p, values);
  products_wait();
  hold(sums.y);
#pragma unroll
  for (int h = 0; h < 2; h++) sums.total[h] = quad_sum(sums.total[h]);
  cluster_wait();
  if (group == b.rank) {
    join(b, g, sums, memory, b.tile * ROWS + group * 64 + warp * 16 + (lane >> 2), tid);
  } else {
    const u32 there = remote(b.joined(), b.rank ^ 1), to = remote(b.memory, b.rank ^ 1) + tid * 16;
    const float statistics[4] = {sums.top[0], sums.total[0], sums.top[1], sums.total[1]};
    put_async4(to + STATISTICS, statistics, there);
#pragma unroll
    for (u32 i = 0; i < D / 8; i++) put_async4(to + i * WARPGROUP * 16, sums.y + i * 4, there);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    prefix_attention(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 memory[];
  Block b;
  b.memory = shared_of(memory), b.rank = cluster_rank();
  const u32 cluster = blockIdx.x >> 1;
  b.item = cluster / g.tiles, b.tile = cluster % g.tiles;
  const u32 count = b.rank ? g.keys - g.half : g.half, tiles = (count + KEYS - 1) / KEYS;
  if (threadIdx.x == 0) {
    bar_init(b.queries_there(), 1);
    bar_init(b.joined(), 1);
    for (u32 i = 0; i < PLACES; i++) {
      bar_init(b.full(i), 1);
      bar_init(b.empty(i), READERS * 4);
    }
    bars_made();
    bar_expect(b.joined(), QUERY_BYTES + STATISTICS_BYTES);
    prefetch_map(&g.q);
    prefetch_map(&g.key);
    prefetch_map(&g.value);
  }
  next_may_start();
  __syncthreads();
  if (threadIdx.x < WARPGROUP) {
    fewer_registers<REGISTERS_TO_BRING>();
    if (threadIdx.x == 0) bring(b, g, tiles);
    __syncwarp();
    cluster_arrive_relaxed();
    cluster_wait();
  } else {
    more_registers<REGISTERS_TO_MULTIPLY>();
    attend(b, g, memory, tiles, count, threadIdx.x / WARPGROUP - 1);
  }
}
