// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Attention of HEADS query heads that share one pair of key and value head of D columns, 64 queries a
// head at most. A cluster of 8 blocks serves a head: seven attend to KEYS keys of the prefix each, the
// last to the chunk's own. Each block leaves every owner of columns its mean of the values, in 16
// bits, with its rows' maxima and denominators; the owner joins them (Flash-Decoding, Dao et al. 2023)
// in the order of the ranks. The prefix is asked for before the kernel in front, which writes queries
// and own keys and values, has ended.
//
// Defined outside: D (64, 128 or 256), KEYS (a multiple of 16, 64 to 160).

#define RANKS 8
#define LAST (RANKS - 1)
#define OWN 64           // keys of the chunk, at most
#define STEPS (D / 16)   // of 16 columns: a lane's 16 bytes of fragments
#define BOXES (D / 64)   // of 64 columns, as the copy engine brings them
#define EARLY (BOXES < 2 ? BOXES : 2)  // boxes of values that are multiplied while p is made
#define OWNED (STEPS < RANKS ? 1 : STEPS / RANKS)  // steps of an owner
#define OWNERS (STEPS / OWNED)

// Shared memory. What others leave here takes the place of the prefix's keys.
#define RECEIVED_BYTES (RANKS * OWNED * 2048)
#define STATISTICS_BYTES (RANKS * 512)
#define JOIN_BYTES (RECEIVED_BYTES + STATISTICS_BYTES)
#define PREFIX_BYTES (KEYS * D * 2)
#define OWN_BYTES (OWN * D * 2)
#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define PREFIX_VALUES MOST(PREFIX_BYTES, JOIN_BYTES)
#define BARS MOST(PREFIX_VALUES + PREFIX_BYTES, JOIN_BYTES + 2 * OWN_BYTES)

static_assert(D == 64 || D == 128 || D == 256, "whole boxes and owners");
static_assert(KEYS % 16 == 0 && KEYS >= 64 && KEYS <= 160, "keys a rank");

struct Given {
  TensorMap prefix_keys, prefix_values;  // [at, D], boxes of KEYS rows
  TensorMap own_keys, own_values;        // [rows, D], boxes of OWN rows
  const u16* q;                          // fragments of HEADS D columns
  u16* out;                              // the same; threads whose rows are both missing write nothing
  const u8* exists;                      // [at + rows], which keys there are
  u32 at, rows;
  float scale;  // D^-0.5 log2(e)
};

struct Block {
  u32 tid, lane, rank, head, memory;  // memory: where shared memory begins
  bool live;                          // one of this thread's rows is a query
  DEV u32 received() const { return memory; }
  DEV u32 statistics() const { return memory + RECEIVED_BYTES; }
  DEV u32 keys_there() const { return memory + BARS; }
  DEV u32 values_there() const { return memory + BARS + 8; }
  DEV u32 joined() const { return memory + BARS + 16; }
};

// All groups of products but the last `left` are done.
template <int left>
DEV void products_wait_but() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}
DEV void fetch(u32 to, const TensorMap* map, u32 keys, u32 row, u32 bar) {
  bar_expect(bar, keys * D * 2);
#pragma unroll
  for (u32 i = 0; i < BOXES; i++) fetch_box(to + i * keys * 128, map, i * 64, row, bar);
}

// Which keys of a lane exist: bit 2 j + c for key 8 j + 2 q + c of those from `first` on.
template <int N>
DEV u64 existing(const u8* exists, u32 first, u32 end, u32 lane) {
  u64 bits = 0;
#pragma unroll
  for (u32 i = 0; i < N / 4; i++) {
    u32 key = first + (i >> 1) * 8 + (lane & 3) * 2 + (i & 1);
    u32 byte = exists[key < end ? key : 0];  // without a branch, so that all loads are under way
    bits |= (u64)(key < end && byte) << i;
  }
  return bits;
}

// One rank's share: N keys and values at these places of shared memory.
template <int N, bool own>
DEV void attend(const Block& b, const Given& g, u32 keys, u32 values, u64 there) {
  u32 q[STEPS][4];
  const Word4* from = (const Word4*)g.q + b.head * STEPS * 128 + b.tid;
#pragma unroll
  for (int i = 0; i < STEPS; i++) {
    Word4 w = from[i * 128];
#pragma unroll
    for (int e = 0; e < 4; e++) q[i][e] = w.v[e];
  }
  float s[N / 2] = {};
  bar_wait(b.keys_there(), 0);
  products_begin();
#pragma unroll
  for (int i = 0; i < STEPS; i++)
    product(s, q[i], by_rows(keys + (i >> 2) * N * 128 + (i & 3) * 32));
  products_commit();
  products_wait();
  hold(s);
  if constexpr (!own) cluster_arrive_relaxed();  // the others' sums may take the place of these keys

  float top[2] = {-infinity(), -infinity()}, shift[2];
#pragma unroll
  for (int i = 0; i < N / 2; i++) {
    if (!(there >> ((i >> 2) * 2 + (i & 1)) & 1)) s[i] = -infinity();
    top[(i >> 1) & 1] = fmaxf(top[(i >> 1) & 1], s[i]);
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    top[h] = quad_max(top[h]);
    shift[h] = top[h] == -infinity() ? 0.0f : top[h] * g.scale;
  }

  // Each rank begins with another box, so that owners are not all written to at once.
  float y[BOXES][32] = {}, sum[2] = {};
  u32 p[N / 16][4];
  auto box = [&](u32 k) { return (k + b.rank) % BOXES; };
  auto multiply = [&](float (&to)[32], u32 k, int i) {
    // One box is 64 columns wide: there is no next one.
    product_by_columns(to, p[i], by_columns(values + box(k) * N * 128 + i * 2048, 1024));
  };
  bar_wait(b.values_there(), 0);
#pragma unroll
  for (int i = 0; i < N / 16; i++) {
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const float* two = s + i * 8 + e * 2;
      float one = exp2_(two[0] * g.scale - shift[e & 1]);
      float other = exp2_(two[1] * g.scale - shift[e & 1]);
      sum[e & 1] += one + other;
      p[i][e] = pack(one, other);
    }
    products_begin();
#pragma unroll
    for (int k = 0; k < EARLY; k++) multiply(y[k], k, i);
  }
  products_commit();
#pragma unroll
  for (int k = EARLY; k < BOXES; k++) {
#pragma unroll
    for (int i = 0; i < N / 16; i++) multiply(y[k], k, i);
    products_commit();
  }

  float inverse[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    sum[h] = quad_sum(sum[h]);
    inverse[h] = sum[h] == 0.0f ? 0.0f : reciprocal(sum[h]);
  }
  cluster_wait();
  if (b.live) {
    const u32 two[4] = {(u32)__float_as_int(top[0] * g.scale), (u32)__float_as_int(sum[0]),
                        (u32)__float_as_int(top[1] * g.scale), (u32)__float_as_int(sum[1])};
    u32 at = (b.rank * 32 + (b.tid >> 2)) * 16;
    for (u32 owner = b.lane & 3; owner < OWNERS; owner += 4)
      put_async4(remote(b.statistics() + at, owner), two, remote(b.joined(), owner));
  }
  auto send = [&](const float (&part)[32], u32 k) {
    if (!b.live) return;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      u32 step = box(k) * 4 + i, owner = step / OWNED, words[4];
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const float* two = part + i * 8 + e * 2;
        words[e] = pack(two[0] * inverse[e & 1], two[1] * inverse[e & 1]);
      }
      u32 at = ((b.rank * OWNED + step % OWNED) * 128 + b.tid) * 16;
      put_async4(remote(b.received() + at, owner), words, remote(b.joined(), owner));
    }
  };
  products_wait_but<BOXES - EARLY>();
#pragma unroll
  for (int k = 0; k < EARLY; k++) {
    hold(y[k]);
    send(y[k], k);
  }
  if constexpr (BOXES > 2) {
    products_wait_but<1>();
    hold(y[2]);
    send(y[2], 2);
    products_wait();
    hold(y[3]);
    send(y[3], 3);
  }
}

// An owner's columns, from every rank's part.
DEV void join(const Block& b, const Given& g, const u8* memory) {
  if (b.rank >= OWNERS || !b.live) return;
  bar_wait_cluster(b.joined(), 0);
  const Float4* statistics = (const Float4*)(memory + RECEIVED_BYTES) + (b.tid >> 2);
  float weight[RANKS][2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float top = -infinity(), total = 0.0f;
#pragma unroll
    for (int r = 0; r < RANKS; r++) top = fmaxf(top, statistics[r * 32].v[h * 2]);
    if (top == -infinity()) top = 0.0f;  // no key exists
#pragma unroll
    for (int r = 0; r < RANKS; r++) {
      Float4 of = statistics[r * 32];
      total += weight[r][h] = of.v[h * 2 + 1] * exp2_(of.v[h * 2] - top);
    }
    float inverse = total == 0.0f ? 0.0f : reciprocal(total);
#pragma unroll
    for (int r = 0; r < RANKS; r++) weight[r][h] *= inverse;
  }
#pragma unroll
  for (int j = 0; j < OWNED; j++) {
    float y[4][2] = {};
#pragma unroll
    for (int r = 0; r < RANKS; r++) {
      Word4 part = *((const Word4*)memory + (r * OWNED + j) * 128 + b.tid);
#pragma unroll
      for (int e = 0; e < 4; e++) {
        Float2 two = unpack(part.v[e]);
        y[e][0] += two.v[0] * weight[r][e & 1];
        y[e][1] += two.v[1] * weight[r][e & 1];
      }
    }
    Word4 words;
#pragma unroll
    for (int e = 0; e < 4; e++) words.v[e] = pack(y[e][0], y[e][1]);
    *((Word4*)g.out + (b.head * STEPS + b.rank * OWNED + j) * 128 + b.tid) = words;
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
    bar_init(b.joined(), 1);
    bars_made();
    u32 left = g.rows % 16, live = 4 * (g.rows / 16 * 8 + (left < 8 ? left : 8));
    bar_expect(b.joined(), RANKS * live * (OWNED * 16 + 4));
    if (b.rank == LAST) {
      prefetch_map(&g.own_keys);
      prefetch_map(&g.own_values);
    } else {
      fetch(b.memory, &g.prefix_keys, KEYS, first, b.keys_there());
      fetch(b.memory + PREFIX_VALUES, &g.prefix_values, KEYS, first, b.values_there());
    }
  }
  next_may_start();
  __syncthreads();
  if (b.rank == LAST) {
    cluster_arrive_relaxed();  // its keys lie elsewhere
    u64 there = existing<OWN>(g.exists, g.at, g.at + g.rows, b.lane);
    others_done();
    const u32 keys = b.memory + JOIN_BYTES, values = keys + OWN_BYTES;
    if (b.tid == 0) {
      fetch(keys, &g.own_keys, OWN, 0, b.keys_there());
      fetch(values, &g.own_values, OWN, 0, b.values_there());
    }
    attend<OWN, true>(b, g, keys, values, there);
  } else {
    u64 there = existing<KEYS>(g.exists, first, g.at, b.lane);
    others_done();
    attend<KEYS, false>(b, g, b.memory, b.memory + PREFIX_VALUES, there);
  }
  join(b, g, memory);
}
