// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Every layer of a Gemma action expert in one launch: few tokens, one request, Hopper.
//
// 128 blocks stay on their multiprocessors, 16 clusters of 8. A product's columns are split over
// clusters and its depth over the ranks of a cluster; partial sums are pushed into the shared memory
// of the rank that owns the columns, which adds them in a fixed order. Between dependent phases the
// grid meets at a counter. One warp streams weights (and keys and values) through a ring of shared
// memory, as far ahead of the barriers as the ring is deep.
//
// Norms: the product takes y = x scale inv_before, where inv_before is the row's inverse norm at the
// norm in front (any positive number would do: it keeps y in range); the epilogue multiplies by
// inv / inv_before and adds shift W^T, computed once a load.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;

#ifndef T
#define T 50
#endif
#ifndef DEPTH
#define DEPTH 18
#endif
#ifndef BF16
#define BF16 0
#endif
#define W 1024
#define HEADS 8
#define D 256
#define QKV ((HEADS + 2) * D)
#define MLP 4096
#define RANKS 8
#define CLUSTERS 16
#define GRID (RANKS * CLUSTERS)
#define TILES_N ((T + 7) / 8)
#define SLOTS 15
#define SLOT 8704
#define ACT 58240
#define PITCH_R 58
#define RED (RANKS * 20 * PITCH_R * 4)
#define HALF_T ((T + 1) / 2)
#define OWN ((T + RANKS - 1) / RANKS)
#define CONSUMERS 256
#define ITEMS ((T * 8 + CONSUMERS - 1) / CONSUMERS)
// Of one layer's vectors, float32.
#define V_SCALE1 0
#define V_BIAS1 (V_SCALE1 + W)
#define V_GATE1 (V_BIAS1 + QKV)
#define V_SCALE2 (V_GATE1 + W)
#define V_BIAS2 (V_SCALE2 + W)
#define V_GATE2 (V_BIAS2 + 2 * MLP)
#define V_LAYER (V_GATE2 + W)

#define DEV __device__ __forceinline__

DEV u32 shared_of(const void* p) {
  u32 a;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p));
  return a;
}
DEV u32 remote(u32 address, u32 rank) {
  u32 a;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(address), "r"(rank));
  return a;
}
DEV void push2(u32 address, float a, float b) {
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(a), "f"(b)
               : "memory");
}
DEV void bar_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
DEV void bar_arrive(u32 bar) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" ::"r"(bar) : "memory");
}
DEV void bar_expect(u32 bar, u32 bytes) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1; }" ::"r"(bar),
               "r"(bytes)
               : "memory");
}
DEV void bar_arrive_remote(u32 bar) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar)
               : "memory");
}
DEV void bar_wait(u32 bar, u32 parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again; }" ::"r"(bar),
      "r"(parity)
      : "memory");
}
DEV void bar_wait_cluster(u32 bar, u32 parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again; }" ::"r"(bar),
      "r"(parity)
      : "memory");
}
DEV void consumers_sync() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
DEV void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
DEV void bulk(u32 to, const void* from, u32 bytes, u32 bar, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(bar), "l"(policy)
      : "memory");
}
DEV void bulk_l2(const void* from, u32 bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}
DEV void copy16(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
DEV void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

DEV void ldm4(u32* r, u32 a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(a));
}
DEV void ldm4t(u32* r, u32 a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(a));
}
DEV void ldm2(u32* r, u32 a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(a));
}
DEV void mma(float* c, const u32* a, const u32* b) {
#if BF16
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
#endif
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEV u16 narrow(float x) {
  u16 h;
#if BF16
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
#endif
  return h;
}
DEV float exp2_(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEV float rsqrt_(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y * (1.5f - 0.5f * x * y * y);
}
DEV float4 load4_l2(const float* p) {
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
DEV float gelu_tanh(float x) {
  float u = 1.5957691216057308f * (x + 0.044715f * x * x * x);
  return x / (1.0f + exp2_(-1.4426950408889634f * u));
}
DEV float infinity() { return __int_as_float(0x7f800000); }

struct Given {
  const u64* weights;    // [DEPTH][4]: qkv, output, gate and up, down
  const float* vectors;  // [DEPTH][V_LAYER]
  float* x;              // [T][W], changed in place
  u16* key;              // [DEPTH][layer_stride]: rows of D; the chunk's own from `prefix` on
  u16* value;
  u64 layer_stride;  // elements
  const u8* exists;  // [prefix + T]
  const float* cosine;  // [T][D]
  const float* sine;
  u16* y;       // [T][W]
  u16* q;       // [T][HEADS D]
  u16* attended;  // [T][HEADS D]
  u16* z;       // [T][MLP]
  float* squares;  // [T][GRID]
  u32* counter;    // 0 at the start
  u64* stamps;     // [GRID][DEPTH][25], with STAMPS
  int prefix;
  float eps;
};

struct Chunk {
  const u16* from;
  u32 bytes, to;
};

DEV int keys_a_rank(int prefix) { return (prefix + RANKS - 1) / RANKS; }

// What lane `lane` copies of chunk c of a layer. Chunks of a layer, in the order of their use:
// 5 of QKV, n of keys, n of values, 8 of the output, 16 of gate and up, 8 of down.
DEV Chunk chunk_of(const Given& g, int layer, int c, int n, int per, u32 cluster, u32 rank,
                   u32 lane) {
  Chunk out = {nullptr, 0, 0};
  const u64* w = g.weights + layer * 4;
  u32 low = lane & 15;
  if (c < 5) {
    u32 block = cluster * 5 + c;
    u32 row = (block >> 3) * D + (block & 7) * 16 + low + (lane >= 16 ? D / 2 : 0);
    out.from = (const u16*)w[0] + (u64)row * W + rank * (W / RANKS);
    out.bytes = 256;
    out.to = lane * 272;
    return out;
  }
  c -= 5;
  if (c < 2 * n) {
    int i = c < n ? c : c - n;
    int first = i * 16, at = (int)rank * per + first + (int)lane;
    if (lane < 16 && first + (int)lane < per && at < g.prefix) {
      out.from = (c < n ? g.key : g.value) + layer * g.layer_stride + (u64)at * D;
      out.bytes = 512;
      out.to = lane * 528;
    }
    return out;
  }
  c -= 2 * n;
  if (c < 8) {
    if (lane < 16) {
      u32 row = cluster * 64 + (c >> 1) * 16 + low;
      out.from = (const u16*)w[1] + (u64)row * (HEADS * D) + rank * D + (c & 1) * 128;
      out.bytes = 256;
      out.to = lane * 272;
    }
    return out;
  }
  c -= 8;
  if (c < 16) {
    u32 step = c >> 3, warp = c & 7;
    u32 row = cluster * 256 + (rank >> 1) * 64 + (warp >> 1) * 16 + low + (lane >= 16 ? MLP : 0);
    out.from = (const u16*)w[2] + (u64)row * W + (rank & 1) * 512 + (warp & 1) * 256 + step * 128;
    out.bytes = 256;
    out.to = lane * 272;
    return out;
  }
  c -= 16;
  if (lane < 16) {
    u32 row = cluster * 64 + (c >> 1) * 16 + low;
    out.from = (const u16*)w[3] + (u64)row * MLP + rank * 512 + (c & 1) * 256;
    out.bytes = 512;
    out.to = lane * 528;
  }
  return out;
}

struct Block {
  u32 ring, act, red, full, empty, pushed;  // shared addresses
  u32 tid, warp, lane, cluster, rank;
  u32 meetings, pushes;
};

#ifdef STAMPS
DEV void stamp(const Block& b, const Given& g, int layer, int i) {
  if (b.tid == 0) {
    u64 now;
    now = clock64();
    g.stamps[((u64)(b.cluster * RANKS + b.rank) * DEPTH + layer) * 25 + i] = now;
  }
}
#else
DEV void stamp(const Block&, const Given&, int, int) {}
#endif
DEV void arrive(Block& b, const Given& g) {
  consumers_sync();
  if (b.tid == 0)
    asm volatile("fence.acq_rel.gpu;\nred.release.gpu.global.add.u32 [%0], 1;" ::"l"(g.counter)
                 : "memory");
  b.meetings += GRID;
}
DEV void meet(Block& b, const Given& g) {
  if (b.tid == 0) {
    u32 seen;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(g.counter) : "memory");
    } while (seen < b.meetings);
  }
  consumers_sync();
}

// Wait until chunk number `it` is in the ring. -> its address.
DEV u32 take(const Block& b, u32 it) {
  u32 slot = it % SLOTS;
  bar_wait(b.full + slot * 8, (it / SLOTS) & 1);
  return b.ring + slot * SLOT;
}
DEV void give(const Block& b, u32 it) { bar_arrive(b.empty + (it % SLOTS) * 8); }

// rows of T tokens, `bytes` of each from `from` (row stride in elements), to shared memory.
template <int BYTES>
DEV void load_rows(const Block& b, u32 to, const u16* from, u32 stride, u32 rows) {
  const u32 per = BYTES / 16;
  for (u32 i = b.tid; i < rows * per; i += CONSUMERS) {
    u32 row = i / per, part = i % per;
    copy16(to + row * (BYTES + 16) + part * 16, from + (u64)row * stride + part * 8);
  }
}

// acc += W tile(s) [16 rows, STEPS * 16] x activations^T [T, ..]. w: shared address of the first
// tile; tiles lie `next` bytes behind one another. x: shared address of the tokens' first column.
template <int MT, int STEPS, int PITCH_W, int PITCH_X>
DEV void product(float (&acc)[MT][TILES_N][4], u32 w, u32 next, u32 x, u32 lane) {
  u32 wa = w + ((lane & 7) + (lane & 8)) * PITCH_W + (lane >> 4) * 16;
  u32 xa = x + ((lane & 7) + (lane >> 4) * 8) * PITCH_X + ((lane >> 3) & 1) * 16;
#pragma unroll
  for (int k = 0; k < STEPS; k++) {
    u32 a[MT][4];
#pragma unroll
    for (int m = 0; m < MT; m++) ldm4(a[m], wa + m * next + k * 32);
    u32 f[TILES_N + 1][2];
#pragma unroll
    for (int n = 0; n < TILES_N; n += 2) {
      if (n + 1 < TILES_N) {
        u32 r[4];
        ldm4(r, xa + n * 8 * PITCH_X + k * 32);
        f[n][0] = r[0], f[n][1] = r[1], f[n + 1][0] = r[2], f[n + 1][1] = r[3];
      } else {
        ldm2(f[n], xa + n * 8 * PITCH_X + k * 32);
      }
    }
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
      for (int n = 0; n < TILES_N; n++) mma(acc[m][n], a[m], f[n]);
  }
}

template <int MT>
DEV void clear(float (&acc)[MT][TILES_N][4]) {
#pragma unroll
  for (int m = 0; m < MT; m++)
#pragma unroll
    for (int n = 0; n < TILES_N; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) acc[m][n][i] = 0.0f;
}

// This warp's pushes are done: tell every rank. 64 arrivals make a phase.
DEV void pushed(const Block& b) {
  __syncwarp();
  if (b.lane < RANKS) bar_arrive_remote(remote(b.pushed, b.lane));
}
DEV void gathered(Block& b) {
  bar_wait_cluster(b.pushed, b.pushes & 1);
  b.pushes++;
}

// Inverse norms of all rows from the blocks' sums of squares. ratio: to what y was made with.
DEV void norms(const Block& b, const Given& g, float* inverse, float* ratio) {
  float4 v[(T + 7) / 8];
#pragma unroll
  for (int i = 0; i < (T + 7) / 8; i++) {
    u32 t = b.warp + i * 8;
    if (t < T) v[i] = load4_l2(g.squares + t * GRID + b.lane * 4);
  }
#pragma unroll
  for (int i = 0; i < (T + 7) / 8; i++) {
    u32 t = b.warp + i * 8;
    if (t < T) {
      float s = (v[i].x + v[i].y) + (v[i].z + v[i].w);
#pragma unroll
      for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
      if (b.lane == 0) {
        float inv = rsqrt_(s / W + g.eps);
        ratio[t] = inv / inverse[t];
        inverse[t] = inv;
      }
    }
  }
}

// Residual of this block's 8 columns, and y and squares for the next norm. v: what is added.
DEV void residual(const Block& b, const Given& g, const float* inverse, float (&x)[ITEMS],
                  const float (&v)[ITEMS], const float* scale) {
  u32 block = b.cluster * RANKS + b.rank;
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    u32 item = b.tid + i * CONSUMERS, t = item >> 3, column = block * 8 + (item & 7);
    bool real = item < T * 8;
    x[i] += v[i];
    float s = real ? x[i] * x[i] : 0.0f;
    s += __shfl_xor_sync(~0u, s, 1);
    s += __shfl_xor_sync(~0u, s, 2);
    s += __shfl_xor_sync(~0u, s, 4);
    if (real && (item & 7) == 0) g.squares[t * GRID + block] = s;
    if (real) g.y[t * W + column] = narrow(x[i] * inverse[t] * scale[column]);
  }
}

// Push a 16-row tile of 8 + 8 columns to its two owners; then each adds its 16 sources.
DEV void push_columns(const Block& b, float (&acc)[1][TILES_N][4]) {
  u32 tile = b.warp >> 1, half = b.warp & 1;
  u32 at = b.red + (((b.rank * 2 + half) * 8 + (b.lane >> 2)) * PITCH_R + (b.lane & 3) * 2) * 4;
  u32 one = remote(at, tile * 2), two = remote(at, tile * 2 + 1);
#pragma unroll
  for (int n = 0; n < TILES_N; n++) {
    push2(one + n * 32, acc[0][n][0], acc[0][n][1]);
    push2(two + n * 32, acc[0][n][2], acc[0][n][3]);
  }
}
DEV void add_columns(const Block& b, const float* red, const float* gate, float (&v)[ITEMS]) {
  u32 block = b.cluster * RANKS + b.rank;
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    u32 item = b.tid + i * CONSUMERS, t = item >> 3, c = item & 7;
    float sum = 0.0f;
    if (item < T * 8) {
#pragma unroll
      for (int s = 0; s < 16; s++) sum += red[(s * 8 + c) * PITCH_R + t];
      sum *= gate[block * 8 + c];
    }
    v[i] = sum;
  }
}

DEV void attend(Block& b, const Given& g, int layer, u32 base, int n, int per, float* red,
                u8* act) {
  const u32 Q = 0, S = 16896, KEY = S + 18944, VALUE = KEY + 4224;  // in act
  const u32 PITCH_S = 148, PITCH_P = 152;
  u32 head = b.cluster >> 1, from = (b.cluster & 1) * HALF_T;
  u32 rows = T - from < HALF_T ? T - from : HALF_T;
  const u16* key = g.key + layer * g.layer_stride + (u64)g.prefix * D;
  const u16* value = g.value + layer * g.layer_stride + (u64)g.prefix * D;
  int own = (int)b.rank * OWN, owned = T - own;
  owned = owned < 0 ? 0 : owned > OWN ? OWN : owned;
  load_rows<512>(b, b.act + Q, g.q + (u64)from * (HEADS * D) + head * D, HEADS * D, rows);
  load_rows<512>(b, b.act + KEY, key + own * D, D, owned);
  load_rows<512>(b, b.act + VALUE, value + own * D, D, owned);
  for (u32 i = b.tid; i < (16 - owned) * 33u; i += CONSUMERS)
    ((float4*)(act + VALUE + owned * 528))[i] = make_float4(0, 0, 0, 0);
  copies_wait();
  consumers_sync();
  stamp(b, g, layer, 6);
  // Scores: a warp takes 16 keys; the chunk's own keys are one more tile of 8.
  float* score = (float*)(act + S);
  const float scale = 0.0625f * 1.4426950408889634f;  // D^-1/2 log2 e
  u32 lane = b.lane;
  u32 qa = b.act + Q + ((lane & 7) + (lane & 8)) * 528 + (lane >> 4) * 16;
  if ((int)b.warp < n) {
    u32 k = take(b, base + b.warp);
    u32 ka = k + ((lane & 7) + (lane >> 4) * 8) * 528 + ((lane >> 3) & 1) * 16;
    float acc[2][2][4] = {};
#pragma unroll 8
    for (int i = 0; i < D / 16; i++) {
      u32 a[2][4], f[4];
      ldm4(a[0], qa + i * 32);
      ldm4(a[1], qa + 16 * 528 + i * 32);
      ldm4(f, ka + i * 32);
#pragma unroll
      for (int m = 0; m < 2; m++) mma(acc[m][0], a[m], f), mma(acc[m][1], a[m], f + 2);
    }
    __syncwarp();
    if (lane == 0) give(b, base + b.warp);
#pragma unroll
    for (int c = 0; c < 2; c++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        int i = b.warp * 16 + c * 8 + (lane & 3) * 2 + j, at = (int)b.rank * per + i;
        bool real = i < per && at < g.prefix && g.exists[at];
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
          for (int h = 0; h < 2; h++)
            score[(m * 16 + h * 8 + (lane >> 2)) * PITCH_S + i] =
                real ? acc[m][c][h * 2 + j] * scale : -infinity();
      }
  }
  if (b.warp == (u32)(n & 7)) {
    u32 ka = b.act + KEY + (lane & 7) * 528 + ((lane >> 3) & 3) * 16;
    float acc[2][4] = {};
#pragma unroll 4
    for (int i = 0; i < D / 32; i++) {
      u32 a[2][4], f[4];
      ldm4(f, ka + i * 64);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        ldm4(a[0], qa + i * 64 + h * 32);
        ldm4(a[1], qa + 16 * 528 + i * 64 + h * 32);
        mma(acc[0], a[0], f + 2 * h), mma(acc[1], a[1], f + 2 * h);
      }
    }
#pragma unroll
    for (int j = 0; j < 2; j++) {
      int i = (lane & 3) * 2 + j;
      bool real = i < owned && g.exists[g.prefix + own + i];
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int h = 0; h < 2; h++)
          score[(m * 16 + h * 8 + (lane >> 2)) * PITCH_S + n * 16 + i] =
              real ? acc[m][h * 2 + j] * scale : -infinity();
    }
  }
  consumers_sync();
  // Softmax over this rank's keys: 4 rows a warp. P takes the queries' place.
  u32 columns = n * 16 + 16;
  u16* p = (u16*)(act + Q);
  u32 pairs = b.red + RANKS * HALF_T * 40 * 4;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    u32 row = b.warp * 4 + i;
    float s[5], high = -infinity();
#pragma unroll
    for (int j = 0; j < 5; j++) {
      u32 c = lane + j * 32;
      s[j] = c < columns - 8 ? score[row * PITCH_S + c] : -infinity();
      high = fmaxf(high, s[j]);
    }
#pragma unroll
    for (int o = 16; o; o >>= 1) high = fmaxf(high, __shfl_xor_sync(~0u, high, o));
    float low = high == -infinity() ? 0.0f : high, sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 5; j++) {
      u32 c = lane + j * 32;
      float e = exp2_(s[j] - low);
      sum += e;
      if (c < columns) p[row * PITCH_P + c] = narrow(e);
    }
#pragma unroll
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (lane < RANKS && row < rows)
      push2(remote(pairs + (b.rank * HALF_T + row) * 8, lane), high, sum);
  }
  consumers_sync();
  // Values: a warp takes 32 columns, which are those rank `warp` joins.
  float acc[2][4][4] = {};
  u32 pa = b.act + Q + ((lane & 7) + (lane & 8)) * (PITCH_P * 2) + (lane >> 4) * 16;
  for (int i = 0; i <= n; i++) {
    u32 v = i < n ? take(b, base + n + i) : b.act + VALUE;
    u32 a[2][4], f[2][4];
    ldm4(a[0], pa + i * 32);
    ldm4(a[1], pa + 16 * PITCH_P * 2 + i * 32);
    u32 va = v + ((lane & 7) + (lane & 8)) * 528 + b.warp * 64 + (lane >> 4) * 16;
    ldm4t(f[0], va);
    ldm4t(f[1], va + 32);
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
      for (int c = 0; c < 4; c++) mma(acc[m][c], a[m], f[c >> 1] + (c & 1) * 2);
  }
  u32 to = remote(b.red + ((b.rank * HALF_T + (lane >> 2)) * 40 + (lane & 3) * 2) * 4, b.warp);
#pragma unroll
  for (int m = 0; m < 2; m++)
#pragma unroll
    for (int h = 0; h < 2; h++)
      if (m * 16 + h * 8 + (lane >> 2) < rows)
#pragma unroll
        for (int c = 0; c < 4; c++)
          push2(to + ((m * 16 + h * 8) * 40 + c * 8) * 4, acc[m][c][h * 2], acc[m][c][h * 2 + 1]);
  stamp(b, g, layer, 7);
  pushed(b);
  gathered(b);
  stamp(b, g, layer, 8);
  if (b.tid == 0)
    for (int i = 0; i < n; i++) give(b, base + n + i);
  const float* pair = red + RANKS * HALF_T * 40;
  for (u32 row = b.warp; row < rows; row += 8) {
    float high = -infinity(), sum = 0.0f, total = 0.0f;
#pragma unroll
    for (int s = 0; s < RANKS; s++) high = fmaxf(high, pair[(s * HALF_T + row) * 2]);
    float low = high == -infinity() ? 0.0f : high;
#pragma unroll
    for (int s = 0; s < RANKS; s++) {
      float f = exp2_(pair[(s * HALF_T + row) * 2] - low);
      sum += f * pair[(s * HALF_T + row) * 2 + 1];
      total += f * red[(s * HALF_T + row) * 40 + lane];
    }
    float y = sum == 0.0f ? 0.0f : total / sum;
    g.attended[(u64)(from + row) * (HEADS * D) + head * D + b.rank * 32 + lane] = narrow(y);
  }
}

DEV void consume(Block& b, const Given& g, u8* act, float* red, float* inverse, float* ratio,
                 int n, int per) {
  u32 block = b.cluster * RANKS + b.rank;
  float x[ITEMS], v[ITEMS];
  for (u32 i = b.tid; i < 64; i += CONSUMERS) inverse[i] = 1.0f, ratio[i] = 1.0f;
  consumers_sync();
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    u32 item = b.tid + i * CONSUMERS;
    x[i] = item < T * 8 ? g.x[(item >> 3) * W + block * 8 + (item & 7)] : 0.0f;
    v[i] = 0.0f;
  }
  residual(b, g, inverse, x, v, g.vectors + V_SCALE1);
  arrive(b, g);
  u32 it = 0;
  for (int layer = 0; layer < DEPTH; layer++) {
    const float* vectors = g.vectors + layer * V_LAYER;
    // Queries, keys and values.
    meet(b, g);
    stamp(b, g, layer, 0);
    load_rows<256>(b, b.act, g.y + b.rank * (W / RANKS), W, T);
    norms(b, g, inverse, ratio);
    copies_wait();
    consumers_sync();
    stamp(b, g, layer, 1);
    if (b.warp < 5) {
      float acc[2][TILES_N][4];
      clear(acc);
      u32 w = take(b, it + b.warp);
      product<2, 8, 272, 272>(acc, w, 16 * 272, b.act, b.lane);
      __syncwarp();
      if (b.lane == 0) give(b, it + b.warp);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        u32 pair = b.warp * 16 + h * 8 + (b.lane >> 2), owner = pair / 10, local = pair % 10;
        u32 to = b.red + ((b.rank * 20 + local) * PITCH_R + (b.lane & 3) * 2) * 4;
        to = remote(to, owner);
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
          for (int i = 0; i < TILES_N; i++)
            push2(to + m * 10 * PITCH_R * 4 + i * 32, acc[m][i][h * 2], acc[m][i][h * 2 + 1]);
      }
    }
    it += 5;
    stamp(b, g, layer, 2);
    pushed(b);
    gathered(b);
    stamp(b, g, layer, 3);
    for (u32 item = b.tid; item < T * 10; item += CONSUMERS) {
      u32 t = item / 10, p = item % 10, pair = b.rank * 10 + p;
      float one = 0.0f, two = 0.0f;
#pragma unroll
      for (int s = 0; s < RANKS; s++) {
        one += red[(s * 20 + p) * PITCH_R + t];
        two += red[(s * 20 + 10 + p) * PITCH_R + t];
      }
      u32 tile = b.cluster * 5 + pair / 16, head = tile >> 3, i = (tile & 7) * 16 + pair % 16;
      const float* bias = vectors + V_BIAS1 + head * D + i;
      one = one * ratio[t] + bias[0];
      two = two * ratio[t] + bias[D / 2];
      if (head <= HEADS) {
        float c = g.cosine[t * D + i], s = g.sine[t * D + i], turned = one * c - two * s;
        two = two * c + one * s;
        one = turned;
      }
      u16* to = head < HEADS ? g.q + (u64)t * (HEADS * D) + head * D
                             : (head == HEADS ? g.key : g.value) + layer * g.layer_stride +
                                   (u64)(g.prefix + t) * D;
      to[i] = narrow(one);
      to[i + D / 2] = narrow(two);
    }
    arrive(b, g);
    stamp(b, g, layer, 4);
    // Attention.
    meet(b, g);
    stamp(b, g, layer, 5);
    attend(b, g, layer, it, n, per, red, act);
    it += 2 * n;
    arrive(b, g);
    stamp(b, g, layer, 9);
    // Output.
    meet(b, g);
    stamp(b, g, layer, 10);
    load_rows<512>(b, b.act, g.attended + b.rank * D, HEADS * D, T);
    copies_wait();
    consumers_sync();
    stamp(b, g, layer, 11);
    {
      float acc[1][TILES_N][4];
      clear(acc);
      u32 w = take(b, it + b.warp);
      product<1, 8, 272, 528>(acc, w, 0, b.act + (b.warp & 1) * 256, b.lane);
      __syncwarp();
      if (b.lane == 0) give(b, it + b.warp);
      push_columns(b, acc);
    }
    it += 8;
    stamp(b, g, layer, 12);
    pushed(b);
    gathered(b);
    stamp(b, g, layer, 13);
    add_columns(b, red, vectors + V_GATE1, v);
    residual(b, g, inverse, x, v, vectors + V_SCALE2);
    arrive(b, g);
    stamp(b, g, layer, 14);
    // Gate and up.
    meet(b, g);
    stamp(b, g, layer, 15);
    load_rows<1024>(b, b.act, g.y + (b.rank & 1) * 512, W, T);
    norms(b, g, inverse, ratio);
    copies_wait();
    consumers_sync();
    stamp(b, g, layer, 16);
    {
      float acc[2][TILES_N][4];
      clear(acc);
#pragma unroll 1
      for (int s = 0; s < 2; s++) {
        u32 w = take(b, it + s * 8 + b.warp);
        product<2, 8, 272, 1040>(acc, w, 16 * 272, b.act + (b.warp & 1) * 512 + s * 256, b.lane);
        __syncwarp();
        if (b.lane == 0) give(b, it + s * 8 + b.warp);
      }
      // The two halves of the depth meet in shared memory.
      consumers_sync();
      float4* half = (float4*)act + (b.warp >> 1) * (2 * TILES_N * 32) + b.lane;
      if (b.warp & 1)
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
          for (int i = 0; i < TILES_N; i++)
            half[(m * TILES_N + i) * 32] =
                make_float4(acc[m][i][0], acc[m][i][1], acc[m][i][2], acc[m][i][3]);
      consumers_sync();
      if (!(b.warp & 1)) {
        u32 pair = b.warp >> 1;
        u32 to = b.red + (((b.rank & 1) * 64 + (pair & 1) * 32 + (b.lane >> 2)) * PITCH_R +
                          (b.lane & 3) * 2) * 4;
        to = remote(to, (b.rank & ~1u) + (pair >> 1));
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
          for (int i = 0; i < TILES_N; i++) {
            float4 o = half[(m * TILES_N + i) * 32];
            u32 here = to + m * 16 * PITCH_R * 4 + i * 32;
            push2(here, acc[m][i][0] + o.x, acc[m][i][1] + o.y);
            push2(here + 8 * PITCH_R * 4, acc[m][i][2] + o.z, acc[m][i][3] + o.w);
          }
      }
    }
    it += 16;
    stamp(b, g, layer, 17);
    pushed(b);
    gathered(b);
    stamp(b, g, layer, 18);
    for (u32 item = b.tid; item < T * 32; item += CONSUMERS) {
      u32 t = item >> 5, c = item & 31, local = (c >> 4) * 32 + (c & 15);
      u32 column = b.cluster * 256 + (b.rank >> 1) * 64 + (b.rank & 1) * 32 + c;
      float gate = red[local * PITCH_R + t] + red[(64 + local) * PITCH_R + t];
      float up = red[(local + 16) * PITCH_R + t] + red[(64 + local + 16) * PITCH_R + t];
      gate = gate * ratio[t] + vectors[V_BIAS2 + column];
      up = up * ratio[t] + vectors[V_BIAS2 + MLP + column];
      g.z[(u64)t * MLP + column] = narrow(gelu_tanh(gate) * up);
    }
    arrive(b, g);
    stamp(b, g, layer, 19);
    // Down.
    meet(b, g);
    stamp(b, g, layer, 20);
    load_rows<1024>(b, b.act, g.z + b.rank * 512, MLP, T);
    copies_wait();
    consumers_sync();
    stamp(b, g, layer, 21);
    {
      float acc[1][TILES_N][4];
      clear(acc);
      u32 w = take(b, it + b.warp);
      product<1, 16, 528, 1040>(acc, w, 0, b.act + (b.warp & 1) * 512, b.lane);
      __syncwarp();
      if (b.lane == 0) give(b, it + b.warp);
      push_columns(b, acc);
    }
    it += 8;
    stamp(b, g, layer, 22);
    pushed(b);
    gathered(b);
    stamp(b, g, layer, 23);
    add_columns(b, red, vectors + V_GATE2, v);
    // Behind the last layer y is not read: any scale will do.
    residual(b, g, inverse, x, v, vectors + (layer + 1 < DEPTH ? V_LAYER : 0) + V_SCALE1);
    arrive(b, g);
    stamp(b, g, layer, 24);
  }
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    u32 item = b.tid + i * CONSUMERS;
    if (item < T * 8) g.x[(item >> 3) * W + block * 8 + (item & 7)] = x[i];
  }
}

#ifndef AHEAD
#define AHEAD 24  // chunks that are asked into L2 before they fit into the ring
#endif

DEV void produce(const Block& b, const Given& g, int n, int per) {
  u64 stream, keep;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(stream));
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(keep));
  int count = 5 + 2 * n + 8 + 16 + 8;
  int far_layer = 0, far = 0;
  for (int i = 0; i < AHEAD; i++, far++) {
    if (far >= SLOTS) {
      Chunk c = chunk_of(g, far_layer, far, n, per, b.cluster, b.rank, b.lane);
      if (c.bytes) bulk_l2(c.from, c.bytes);
    }
  }
  u32 it = 0;
  for (int layer = 0; layer < DEPTH; layer++)
    for (int i = 0; i < count; i++, it++) {
      u32 slot = it % SLOTS, bar = b.full + slot * 8;
      Chunk c = chunk_of(g, layer, i, n, per, b.cluster, b.rank, b.lane);
      u32 bytes = c.bytes;
#pragma unroll
      for (int o = 16; o; o >>= 1) bytes += __shfl_xor_sync(~0u, bytes, o);
      if (it >= SLOTS) bar_wait(b.empty + slot * 8, (it / SLOTS - 1) & 1);
      if (b.lane == 0) bar_expect(bar, bytes);
      __syncwarp();
      bool kept = i >= 5 && i < 5 + 2 * n;
      if (c.bytes) bulk(b.ring + slot * SLOT + c.to, c.from, c.bytes, bar, kept ? keep : stream);
      if (AHEAD) {
        if (far == count) far = 0, far_layer++;
        if (far_layer < DEPTH) {
          Chunk f = chunk_of(g, far_layer, far, n, per, b.cluster, b.rank, b.lane);
          if (f.bytes) bulk_l2(f.from, f.bytes);
          far++;
        }
      }
    }
}

extern "C" __global__ void __cluster_dims__(RANKS, 1, 1) __launch_bounds__(CONSUMERS + 32, 1)
    gemma_stack(const __grid_constant__ Given g) {
  extern __shared__ __align__(128) u8 memory[];
  u8* act = memory + SLOTS * SLOT;
  float* red = (float*)(act + ACT);
  float* inverse = (float*)(act + ACT + RED);
  float* ratio = inverse + 64;
  Block b;
  b.ring = shared_of(memory);
  b.act = b.ring + SLOTS * SLOT;
  b.red = b.act + ACT;
  b.full = b.red + RED + 512;
  b.empty = b.full + SLOTS * 8;
  b.pushed = b.empty + SLOTS * 8;
  b.tid = threadIdx.x, b.warp = b.tid >> 5, b.lane = b.tid & 31;
  b.cluster = blockIdx.x / RANKS, b.rank = blockIdx.x % RANKS;
  b.meetings = 0, b.pushes = 0;
  // Rows that are not copied must be finite: a weight of zero does not hide a NaN.
  for (u32 i = b.tid; i < SLOTS * SLOT / 16; i += CONSUMERS + 32)
    ((float4*)memory)[i] = make_float4(0, 0, 0, 0);
  if (b.tid == 0) {
    for (u32 i = 0; i < SLOTS; i++) bar_init(b.full + i * 8, 1), bar_init(b.empty + i * 8, 1);
    bar_init(b.pushed, RANKS * 8);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  cluster_sync();
  int per = keys_a_rank(g.prefix), n = (per + 15) / 16;
  if (b.warp == 8)
    produce(b, g, n, per);
  else
    consume(b, g, act, red, inverse, ratio, n, per);
  __syncwarp();
  cluster_sync();  // nobody leaves while others push to it
}
