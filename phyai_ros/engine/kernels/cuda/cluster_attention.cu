// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Attention of HEADS query heads that share one pair of key and value head of D columns, 64 queries a
// head at most. A cluster of 8 blocks serves a head: seven attend to KEYS keys of the prefix each, the
// last to the chunk's own. Each block leaves every owner of columns its mean of the values, in 16
// bits, with its rows' maxima and denominators; the owner joins them (Flash-Decoding, Dao et al. 2023)
// in the order of the ranks. The prefix is asked for before the kernel in front, which writes queries
// and own keys and values, has ended.
//
// Defined outside: D (64, 128 or 256), KEYS (a multiple of 16, 64 to 160); ALONE: 1 where the first
// query sees no own key but its own; LEAVES: 1 where what it leaves is E5M2 (``e4m3.cuh``); LATE: 1
// where the next launch may start behind the products of the keys alone.

// Where scores begin: minus infinity for a key that does not exist, of those from `first` on.
template <int N>
DEV void begin(float (&s)[N / 2], const u8* exists, u32 first, u32 end, u32 lane) {
#pragma unroll
  for (u32 i = 0; i < N / 4; i++) {
    u32 key = first + (i >> 1) * 8 + (lane & 3) * 2 + (i & 1);
    u32 byte = exists[key < end ? key : 0];  // without a branch, so that all loads are under way
    float one = key < end && byte ? 0.0f : -infinity();
    s[(i >> 1) * 4 + (i & 1)] = one;
    s[(i >> 1) * 4 + 2 + (i & 1)] = one;
  }
}

// One rank's share: N keys and values at these places of shared memory.
template <int N, bool own>
DEV void attend(const Block& b, const Given& g, float (&s)[N / 2], u8* memory, u32 keys, u32 values,
                u32 weights) {
  u32 q[STEPS][4];
  const Word4* from = (const Word4*)g.q + b.head * STEPS * 128 + b.tid;
#pragma unroll
  for (int i = 0; i < STEPS; i++) {
    Word4 w = from[i * 128];
#pragma unroll
    for (int e = 0; e < 4; e++) q[i][e] = w.v[e];
  }
  const u64 matrix = by_rows(keys);
  bar_wait(b.keys_there(), 0);
  products_begin();
#pragma unroll
  for (int i = 0; i < STEPS; i++)
    product(s, q[i], further(matrix, (i >> 2) * N * 128 + (i & 3) * 32));
  products_commit();
  if (LATE) next_may_start();
  products_wait();
  hold(s);
  if constexpr (own && ALONE) {
    // The first query is the upper row of the first four lanes; the first of them has its own key.
#pragma unroll
    for (int i = 0; i < N / 2; i++)
      if (!(i >> 1 & 1) && b.tid < 4 && (b.tid || i)) s[i] = -infinity();
  }
  if constexpr (!own) cluster_arrive_relaxed();  // the others' sums may take the place of these keys

  float top[2], shift[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float of[2] = {-infinity(), -infinity()};
#pragma unroll
    for (int i = 0; i < N / 8; i++)
#pragma unroll
      for (int c = 0; c < 2; c++) of[c] = fmaxf(of[c], s[i * 4 + h * 2 + c]);
    top[h] = quad_max(fmaxf(of[0], of[1]));
    shift[h] = top[h] == -infinity() ? 0.0f : top[h] * g.scale;
  }

  // Weights go through shared memory: products that read them from registers keep the warp.
  float y[BOXES][32], sum[2] = {};
  const u32 row = (b.tid >> 5) * 16 + (b.lane & 15);
  __syncthreads();  // all warps have multiplied the keys
#pragma unroll
  for (int i = 0; i < N / 16; i++) {
    u32 p[4];
    weigh(p, s + i * 8, s + i * 8 + 4, g.scale, shift, sum);
    u32 piece = (i & 3) * 2 + (b.lane >> 4);
    put_tiles(weights + (i >> 2) * 8192 + row * 128 + ((piece ^ (row & 7)) << 4), p);
  }
  written();
  bar_wait(b.values_there(), 0);
  // Each rank begins with another box, so that owners are not all written to at once.
  auto box = [&](u32 k) { return (k + b.rank) % BOXES; };
  auto multiply = [&](u32 k) {
    // One box is 64 columns wide: there is no next one.
    const u64 by = by_rows(weights), of = by_columns(values + box(k) * N * 128, 1024);
    products_begin();
#pragma unroll
    for (int i = 0; i < N / 16; i++) {
      const u64 weight = further(by, (i >> 2) * 8192 + (i & 3) * 32), value = further(of, i * 2048);
      if (i == 0)
        product_by_columns_anew(y[k], weight, value);
      else
        product_by_columns(y[k], weight, value);
    }
    products_commit();
  };
  multiply(0);
  if constexpr (BOXES > 1) multiply(1);

  float inverse[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    sum[h] = quad_sum(sum[h]);
    inverse[h] = sum[h] == 0.0f ? 0.0f : reciprocal(sum[h]);
  }
  cluster_wait();
  if (b.live) {
    const u32 two[4] = {__float_as_uint(top[0] * g.scale), __float_as_uint(sum[0]),
                        __float_as_uint(top[1] * g.scale), __float_as_uint(sum[1])};
    u32 at = (b.rank * 32 + (b.tid >> 2)) * 16;
    for (u32 owner = b.lane & 3; owner < OWNERS; owner += 4)
      put_async4(remote(b.statistics() + at, owner), two, remote(b.told(), owner));
  }
  auto send = [&](u32 k) {
    hold(y[k]);
    if (!b.live) return;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      u32 step = box(k) * 4 + i, owner = step / OWNED;
      Word4 words;
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const float* two = y[k] + i * 8 + e * 2;
        words.v[e] = pack(two[0] * inverse[e & 1], two[1] * inverse[e & 1]);
      }
      u32 at = ((b.rank * OWNED + step % OWNED) * 128 + b.tid) * 16;
      if (owner == b.rank)
        *(Word4*)(memory + at) = words;  // this very thread will read it
      else
        put_async4(remote(b.received() + at, owner), words.v, remote(b.joined(k), owner));
    }
  };
  // The network between the blocks is what takes longest: it is given a box as soon as there is one.
#pragma unroll
  for (int k = 0; k < BOXES; k++) {
    if (k + 1 < BOXES)
      products_wait_but<1>();
    else
      products_wait();
    send(k);
    if (k + 2 < BOXES) multiply(k + 2);
  }
}

// An owner's columns, from every rank's part, in the order in which they are sent.
DEV void join(const Block& b, const Given& g, const u8* memory) {
  if (b.rank >= OWNERS || !b.live) return;
  bar_wait_cluster(b.told(), 0);
  const Float4* statistics = (const Float4*)(memory + RECEIVED_BYTES) + (b.tid >> 2);
  float top[2], inverse[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float total = 0.0f;
    top[h] = -infinity();
#pragma unroll
    for (int r = 0; r < RANKS; r++) top[h] = fmaxf(top[h], statistics[r * 32].v[h * 2]);
    if (top[h] == -infinity()) top[h] = 0.0f;  // no key exists
#pragma unroll
    for (int r = 0; r < RANKS; r++) {
      Float4 of = statistics[r * 32];
      total += of.v[h * 2 + 1] * exp2_(of.v[h * 2] - top[h]);
    }
    inverse[h] = total == 0.0f ? 0.0f : reciprocal(total);
  }
  hold(top);
  hold(inverse);
  float y[OWNED][8] = {};
#pragma unroll
  for (u32 k = 0; k < BOXES; k++) {
    bar_wait_cluster(b.joined(k), 0);
#pragma unroll
    for (u32 i = 0; i < RANKS / BOXES; i++) {
      u32 rank = (b.box() - k) % BOXES + i * BOXES;
      Float4 of = statistics[rank * 32];
      float weight[2];
#pragma unroll
      for (int h = 0; h < 2; h++)
        weight[h] = of.v[h * 2 + 1] * exp2_(of.v[h * 2] - top[h]) * inverse[h];
#pragma unroll
      for (u32 j = 0; j < OWNED; j++) {
        Word4 part = *((const Word4*)memory + (rank * OWNED + j) * 128 + b.tid);
#pragma unroll
        for (int e = 0; e < 4; e++) {
          Float2 two = unpack(part.v[e]);
          y[j][e * 2] += two.v[0] * weight[e & 1];
          y[j][e * 2 + 1] += two.v[1] * weight[e & 1];
        }
      }
    }
  }
#pragma unroll
  for (u32 j = 0; j < OWNED; j++) {
    const u32 step = b.head * STEPS + b.rank * OWNED + j;
#if LEAVES
    put_bytes(g.out, step * 16, b.tid, y[j]);
    put_bytes(g.out, step * 16 + 8, b.tid, y[j] + 4);
#else
    Word4 words;
#pragma unroll
    for (int e = 0; e < 4; e++) words.v[e] = pack(y[j][e * 2], y[j][e * 2 + 1]);
    *((Word4*)g.out + step * 128 + b.tid) = words;
#endif
  }
}

extern "C" __global__ void __launch_bounds__(128)
    cluster_attention(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 memory[];
  Block b;
  b.tid = threadIdx.x, b.lane = b.tid & 31;
  b.rank = cluster_rank(), b.head = blockIdx.x / RANKS, b.memory = shared_of(memory);
  b.live = (b.tid >> 5) * 16 + (b.lane >> 2) < g.rows;
  const u32 first = b.rank * KEYS;

  if (b.tid == 0) {
    bar_init(b.keys_there(), 1);
    bar_init(b.values_there(), 1);
    bar_init(b.told(), 1);
    for (u32 k = 0; k < BOXES; k++) bar_init(b.joined(k), 1);
    bars_made();
    u32 left = g.rows % 16, live = 4 * (g.rows / 16 * 8 + (left < 8 ? left : 8));
    bar_expect(b.told(), RANKS * live * 4);
    for (u32 k = 0; k < BOXES; k++) {
      bool self = (b.box() - b.rank) % BOXES == k;  // its own part comes by no network
      bar_expect(b.joined(k), (RANKS / BOXES - self) * live * OWNED * 16);
    }
    if (b.rank == LAST) {
      prefetch_map(&g.own_keys);
      prefetch_map(&g.own_values);
    } else {
      fetch(b.memory, &g.prefix_keys, KEYS, first, b.keys_there());
      fetch(b.memory + PREFIX_VALUES, &g.prefix_values, KEYS, first, b.values_there());
    }
  }
  if (!LATE) next_may_start();
  __syncthreads();
  if (b.rank == LAST) {
    cluster_arrive_relaxed();  // its keys lie elsewhere
    float s[OWN / 2];
    begin<OWN>(s, g.exists, g.at, g.at + g.rows, b.lane);
    others_done();
    const u32 keys = b.memory + JOIN_BYTES, values = keys + OWN_BYTES;
    if (b.tid == 0) {
      fetch(keys, &g.own_keys, OWN, 0, b.keys_there());
      fetch(values, &g.own_values, OWN, 0, b.values_there());
    }
    attend<OWN, true>(b, g, s, memory, keys, values, values + OWN_BYTES);
  } else {
    float s[KEYS / 2];
    begin<KEYS>(s, g.exists, first, g.at, b.lane);
    others_done();
    attend<KEYS, false>(b, g, s, memory, b.memory, b.memory + PREFIX_VALUES, b.memory + JOIN_BYTES);
  }
  join(b, g, memory);
}
