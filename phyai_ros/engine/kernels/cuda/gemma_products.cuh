// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Meeting of the grid, products of a few tokens, partial sums between the ranks of a cluster, norms.

#ifdef STAMPS
DEV void stamp(const Block& b, const Given& g, int layer, int i) {
  if (b.tid == 0)
    g.stamps[((u64)(b.cluster * RANKS + b.rank) * DEPTH + layer) * 25 + i] = clock64();
}
#else
DEV void stamp(const Block&, const Given&, int, int) {}
#endif

DEV void consumers_sync() { threads_sync(CONSUMERS); }

// Wipe what was read in the phase in front, 16 bytes a thread: every block has read it when this
// block has gathered, because what was gathered took all blocks' share of the phase in front. It is
// written again three phases on.
DEV void wipe(const Block& b, void* p, u32 bytes) {
  for (u32 i = (b.cluster * RANKS + b.rank) * CONSUMERS + b.tid; i < bytes / 16;
       i += GRID * CONSUMERS)
    store_empty((u8*)p + i * 16);
}

// The end of a phase: shared memory may be used anew.
DEV void leave(const Block& b, const Given& g, int layer, int i) {
#ifdef FENCE
  fence_device();
#endif
  consumers_sync();
  if (b.tid < RANKS) bar_arrive_remote(remote(b.free, b.tid));
  stamp(b, g, layer, i);
}
// How many bytes are pushed to this block in this phase: `sources` blocks, or of each `used` alone.
DEV void expect(const Block& b, u32 sources, u32 block, u32 used) {
#ifdef DIRECT
  if (b.tid == 0) bar_expect(b.pushed, sources * used);
#else
  if (b.tid == 0) bar_expect(b.pushed, sources * block);
#endif
}
// Before a warp's first push of a phase: every rank has added up what was pushed in the one in front.
DEV void pushes_begin(const Block& b) {
  if (b.pushes) bar_wait_relaxed(b.free, (b.pushes - 1) & 1);
}
// Where in the block for `owner` (the i-th that this rank leaves) a value is put.
struct Aim {
  u32 to, bar;
};
DEV Aim aim(const Block& b, u32 owner, u32 i, u32 source, u32 block, u32 inner) {
#ifdef DIRECT
  return {remote(b.red + source * block + inner, owner), remote(b.pushed, owner)};
#else
  return {b.act + i * block + inner, 0};
#endif
}
DEV void put2(const Aim& a, u32 offset, float x, float y) {
#ifdef DIRECT
  push2(a.to + offset, x, y, a.bar);
#else
  store2(a.to + offset, x, y);
#endif
}
// All warps: from here on activations may be overwritten by what is put.
DEV void puts_begin(const Block& b) {
#ifndef DIRECT
  consumers_sync();
#endif
}
// All warps: what was put goes to the owners, `count` ranks from `first` on.
DEV void send(const Block& b, u32 first, u32 count, u32 source, u32 block) {
#ifndef DIRECT
  copy_engine_sees();
  consumers_sync();
  if (b.tid < count) {
    push_bulk(remote(b.red + source * block, first + b.tid), b.act + b.tid * block, block,
              remote(b.pushed, first + b.tid));
  }
#endif
}
DEV void gathered(Block& b) {
  bar_wait(b.pushed, b.pushes & 1);
  b.pushes++;
}

// `rows` (at most MOST) rows of BYTES from `from` (stride in elements), when they were written, to
// shared memory with 16 bytes of padding each.
template <int BYTES, int MOST>
DEV void load_rows(const Block& b, u32 to, const u16* from, u32 stride, u32 rows) {
  const u32 per = BYTES / 16, EACH = (MOST * per + CONSUMERS - 1) / CONSUMERS;
  Words v[EACH];
#pragma unroll
  for (u32 n = 0; n < EACH; n++) {
    u32 i = b.tid + n * CONSUMERS, row = i / per, part = i % per;
    if (row >= rows) continue;
    const u16* at = from + (u64)row * stride + part * 8;
    v[n] = load_shared_data(at);
#ifndef EAGER
    if (n == 0)  // the others are asked for when this one is there
      while (!complete16(v[0])) waiting(), v[0] = load_shared_data(at);
#endif
  }
#ifndef DIRECT
  pushes_begin(b);  // and the copy engine has read what was put here
#endif
#pragma unroll
  for (u32 n = 0; n < EACH; n++) {
    u32 i = b.tid + n * CONSUMERS, row = i / per, part = i % per;
    if (row >= rows) continue;
    const u16* at = from + (u64)row * stride + part * 8;
    while (!complete16(v[n])) waiting(), v[n] = load_shared_data(at);
    store_shared(to + row * (BYTES + 16) + part * 16, v[n]);
  }
}

// acc += W tile(s) [16 rows, STEPS * 16] x activations^T [T, ..]. w: shared address of the first
// tile; tiles lie `next` bytes behind one another. x: shared address of the tokens' first column.
template <int MT, int STEPS, int PITCH_W, int PITCH_X>
DEV void product(float (&acc)[MT][TILES_N][4], u32 w, u32 next, u32 x, u32 lane) {
  u32 wa = w + (lane & 15) * PITCH_W + (lane >> 4) * 16;
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

// Inverse norms of all rows from the blocks' sums of squares. ratio: to what y was made with.
DEV void norms(const Block& b, const Given& g, const float* squares, float* inverse, float* ratio) {
  const int EACH = (T + WARPS - 1) / WARPS;
  Words v[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    u32 t = b.warp + i * WARPS;
    if (t < T && b.lane < GRID / 4) v[i] = load_shared_data(squares + t * MOST_GRID + b.lane * 4);
  }
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    u32 t = b.warp + i * WARPS;
    if (t < T) {
      float s = 0.0f;
      if (b.lane < GRID / 4) {
        while (!complete32(v[i]))
          waiting(), v[i] = load_shared_data(squares + t * MOST_GRID + b.lane * 4);
        s = (__int_as_float(v[i].w[0]) + __int_as_float(v[i].w[1])) +
            (__int_as_float(v[i].w[2]) + __int_as_float(v[i].w[3]));
      }
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

// The columns of the residual that this block owns: item -> token and column, 16 items a token.
struct Place {
  u32 t, c, column;
  bool real;
};
DEV Place place(const Block& b, int i) {
  u32 item = b.tid + i * CONSUMERS, own = 2 * b.columns.count;
  Place p = {item >> 4, item & 15, b.columns.first * 16 + b.rank * own + (item & 15), false};
  p.real = p.t < T && p.c < own;
  return p;
}

// Residual of this block's columns, and y and squares for the next norm (0: attention's, 1: the
// MLP's). v: what is added.
DEV void residual(const Block& b, const Given& g, int norm, const float* inverse,
                  float (&x)[ITEMS], const float (&v)[ITEMS], const float (&scale)[ITEMS]) {
  u16* y = g.y + norm * T * W;
  float* squares = g.squares + norm * T * MOST_GRID + b.cluster * RANKS + b.rank;
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    Place p = place(b, i);
    x[i] += v[i];
    float s = p.real ? x[i] * x[i] : 0.0f;
#pragma unroll
    for (int o = 8; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (p.real && p.c == 0) store32(squares + p.t * MOST_GRID, s);
    if (p.real)
      store16(y + p.t * W + p.column, narrow(x[i] * inverse[p.t] * scale[i]));
  }
}

// Push a 16-row tile of columns of the residual to its owners; an owner adds its 16 sources.
DEV void push_columns(const Block& b, float (&acc)[1][TILES_N][4]) {
  u32 tile = b.warp >> 1, half = b.warp & 1, own = 2 * b.columns.count;
#ifdef DIRECT
  pushes_begin(b);
#endif
#pragma unroll
  for (int h = 0; h < 2; h++) {
    u32 column = tile * 16 + h * 8 + (b.lane >> 2), row = half * MOST_COLUMNS + column % own;
    Aim to = aim(b, column / own, column / own, b.rank, BLOCK_COLUMNS,
                 (row * PITCH_R + (b.lane & 3) * 2) * 4);
#pragma unroll
    for (int n = 0; n < TILES_N; n++) put2(to, n * 32, acc[0][n][h * 2], acc[0][n][h * 2 + 1]);
  }
}
// Vectors of this block's columns, asked for before they are needed.
DEV void vectors_of(const Block& b, const float* p, float (&v)[ITEMS]) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    Place at = place(b, i);
    v[i] = at.real ? p[at.column] : 0.0f;
  }
}
DEV void add_columns(const Block& b, const float* red, const float (&gate)[ITEMS],
                     float (&v)[ITEMS]) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    Place p = place(b, i);
    float sum = 0.0f;
    if (p.real) {
#pragma unroll
      for (int s = 0; s < 2 * RANKS; s++) sum += red[(s * MOST_COLUMNS + p.c) * PITCH_R + p.t];
    }
    v[i] = sum * gate[i];
  }
}
