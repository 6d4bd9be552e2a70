// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Softmax of a lane's two rows, 8 apart, over keys that come in steps; scores are what a product
// leaves, scaled by log2(e) only where they become powers of two. Behind hopper.cuh.

// What a row's largest score may grow by, as a power of two, before its sums are scaled anew.
#define SLACK 8.0f

// What a lane keeps of Columns columns of values.
template <int Columns>
struct RowSums {
  float y[Columns / 2] = {};                    // not yet divided
  float top[2] = {-infinity(), -infinity()};    // the scale of y, as a power of two
  float total[2] = {};                          // this lane's share

  // part: each row's largest new score, in two chains. -> whether y is to be scaled by fade.
  DEV bool rise(const float (&part)[2][2], float scale, float (&fade)[2]) {
    bool grown = false;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const float highest = quad_max(fmaxf(part[0][h], part[1][h])) * scale;
      fade[h] = 1.0f;
      if (highest > top[h] + SLACK) {
        fade[h] = exp2_(top[h] - highest);
        top[h] = highest;
        grown = true;
      }
    }
    return grown;
  }
  // part: of each row's new probabilities, in two chains.
  DEV void add(const float (&part)[2][2], const float (&fade)[2]) {
#pragma unroll
    for (int h = 0; h < 2; h++) total[h] = total[h] * fade[h] + (part[0][h] + part[1][h]);
  }
  DEV void scale(const float (&fade)[2]) {
#pragma unroll
    for (u32 i = 0; i < Columns / 2; i++) y[i] *= fade[(i >> 1) & 1];
  }
  // bar_wait for what came long ago, behind the probabilities that are in the totals. The assembler
  // would wait for products first and make the probabilities then, were there not a wait that depends
  // on these: no total is below zero, and the first phase of `over` has ended.
  DEV void wait_behind(u32 over, u32 bar, u32 parity) const {
    const bool below = total[0] + total[1] < 0.0f;
    bar_wait(below ? over : bar, below ? 0 : parity);
  }
};

// Probabilities as products take them, 16 keys a step. They are made here, not where a product is asked
// for.
template <int Steps>
DEV void packed(u32 (&p)[Steps][4], const float (&s)[Steps * 8]) {
#pragma unroll
  for (int i = 0; i < Steps; i++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      p[i][e] = pack(s[i * 8 + e * 2], s[i * 8 + e * 2 + 1]);
      made(p[i][e]);
    }
}

// Scores of 8 keys and of the 8 behind them -> probabilities as a product takes them; what each row's
// come to is added to sum.
DEV void weigh(u32 (&p)[4], const float* eight, const float* next, float scale,
               const float (&shift)[2], float (&sum)[2]) {
#pragma unroll
  for (u32 e = 0; e < 4; e++) {
    const float* two = (e >> 1 ? next : eight) + (e & 1) * 2;
    const float one = exp2_(two[0] * scale - shift[e & 1]);
    const float other = exp2_(two[1] * scale - shift[e & 1]);
    sum[e & 1] += one + other;
    p[e] = pack(one, other);
  }
}
