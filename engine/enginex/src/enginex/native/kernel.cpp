// The routed experts of a few tokens, at the speed of memory.
//
// Every chosen expert's weights are read once, in order, whatever number of tokens chose it; nothing is copied. One
// parallel region does both matrices: first h = act(W1 x)·(W3 x) for each (expert, token) pair, in panels of
// rows; then, after a barrier, y = Σ weight·(W2 h), in ranges of outputs, each summed by one thread over
// the experts in ascending order. So a result does not depend on the number of threads.
//
// This file is compiled once for each instruction set, under its own namespace (ENGINEX_ISA).

// GCC 12's own headers trip this one.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "kernel.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

#include <omp.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ENGINEX_CONCAT2(a, b) a##b
#define ENGINEX_CONCAT(a, b) ENGINEX_CONCAT2(a, b)

namespace ENGINEX_CONCAT(enginex_, ENGINEX_ISA) {

constexpr int kRows = 16;    // rows of a block
constexpr int kMost = 8;     // tokens that one pass over a panel serves
constexpr int kStreams = 4;  // places that are read in turn
constexpr int kPanel = 16 * kRows;

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
constexpr int kParts = kRows / kLanes;

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef float VecU __attribute__((vector_size(4 * kLanes), aligned(4)));
typedef uint32_t Bits __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Half __attribute__((vector_size(2 * kLanes), aligned(2)));

static inline Vec splat(float x) { return x - Vec{}; }

// ---- numbers in memory ----------------------------------------------------------------------------------

static inline float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16, rest = h & 0x7fff;
  uint32_t bits;
  if (rest >= 0x7c00) {
    bits = 0x7f800000u | (rest & 0x3ff) << 13;
  } else if (rest >= 0x400) {
    bits = (rest << 13) + (112u << 23);
  } else {
    const float small = float(rest) * 0x1p-24f;
    std::memcpy(&bits, &small, 4);
  }
  bits |= sign;
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}

static inline uint16_t float_to_half(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return sign | 0x7e00;
  if (bits >= 0x477ff000) return sign | 0x7c00;  // 65520 and up round to infinity
  if (bits < 0x38800000) {                       // below the least normal: let the adder round
    float y;
    std::memcpy(&y, &bits, 4);
    y += 0.5f;
    uint32_t sum;
    std::memcpy(&sum, &y, 4);
    return sign | uint16_t(sum - 0x3f000000);
  }
  bits += 0xc8000fff + (bits >> 13 & 1);
  return sign | uint16_t(bits >> 13);
}

static inline uint16_t float_to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct Bf16 {
  typedef uint16_t Raw;
  static inline Vec load(const Raw* p) {
    Half raw;
    std::memcpy(&raw, p, sizeof raw);
    const Bits wide = __builtin_convertvector(raw, Bits) << 16;
    return (Vec)wide;
  }
  static inline float one(Raw r) {
    const uint32_t bits = uint32_t(r) << 16;
    float out;
    std::memcpy(&out, &bits, 4);
    return out;
  }
  static inline Raw round(float x) { return float_to_bf16(x); }
};

struct Fp16 {
  typedef uint16_t Raw;
  static inline Vec load(const Raw* p) {
#if defined(__AVX512F__)
    return (Vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
#elif defined(__F16C__)
    return (Vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
#else
    Vec out;
    for (int i = 0; i < kLanes; i++) out[i] = half_to_float(p[i]);
    return out;
#endif
  }
  static inline float one(Raw r) { return half_to_float(r); }
  static inline Raw round(float x) { return float_to_half(x); }
};

struct Fp32 {
  typedef float Raw;
  static inline Vec load(const Raw* p) { return *(const VecU*)p; }
  static inline float one(Raw r) { return r; }
  static inline Raw round(float x) { return x; }
};

static inline float sum(Vec v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#else
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) v[i] += v[i + half];
  return v[0];
#endif
}

// ---- products of a panel of rows with up to kMost vectors --------------------------------------------------
//
// Each Dot has: the type of the elements in memory (Raw), the type in which vectors are kept (In), and
// panel<M>(w, rows, k, x, y): y[m][r] = Σ_k W[r][k]·x[m][k] for r < rows ≤ kPanel, where the panel's rows follow each
// other at w. All of them read a few places of the panel in turn, a few cache lines at each, and go on from there:
// memory answers up to a third faster that way than to one reader that goes straight through, as more pages are
// looked up and more lines are under way at once.

constexpr int kVectors = kLanes == 16 ? 32 : 16;  // registers

// How many places to read in turn, and lines at each, when a place has `sums` sums under way and a line needs `more`
// registers besides: as many as there are registers for.
static constexpr int streams(int sums, int more) {
  return kStreams * sums + more < kVectors ? kStreams : kStreams / 2 * sums + more < kVectors ? kStreams / 2 : 1;
}
static constexpr int lines(int sums, int more) {
  return streams(sums, more) * sums + 4 * more < kVectors ? 4 : streams(sums, more) * sums + 2 * more < kVectors ? 2 : 1;
}

template <class D>
struct RowsDot {
  typedef typename D::Raw Raw;
  typedef float In;
  static inline In keep(float x) { return D::one(D::round(x)); }
  static inline In take(Raw r) { return D::one(r); }

  template <int M>
  static inline void panel(const Raw* w, int64_t rows, int64_t k, const In* const* x, float (*y)[kPanel]) {
    constexpr int S = streams(M, M);
    const int64_t lag = rows / S;
    for (int64_t r = 0; r < lag; r++) some<M, S>(w, lag, k, x, y, r);
    for (int64_t r = S * lag; r < rows; r++) some<M, 1>(w, 0, k, x, y, r);
  }

  template <int M, int S>
  static inline void some(const Raw* w, int64_t lag, int64_t k, const In* const* x, float (*y)[kPanel], int64_t r) {
    const int64_t whole = k / kLanes * kLanes;
    Vec acc[S][M] = {};
    for (int64_t at = 0; at < whole; at += kLanes)
      for (int s = 0; s < S; s++) {
        const Vec part = D::load(w + (r + s * lag) * k + at);
        for (int m = 0; m < M; m++) acc[s][m] += part * *(const VecU*)(x[m] + at);
      }
    for (int s = 0; s < S; s++)
      for (int m = 0; m < M; m++) {
        float total = sum(acc[s][m]);
        for (int64_t i = whole; i < k; i++) total += D::one(w[(r + s * lag) * k + i]) * x[m][i];
        y[m][r + s * lag] = total;
      }
  }
};

template <class D>
struct LanesDot {
  typedef typename D::Raw Raw;
  typedef float In;
  static inline In keep(float x) { return D::one(D::round(x)); }
  static inline In take(Raw r) { return D::one(r); }

  template <int M>
  static inline void panel(const Raw* w, int64_t rows, int64_t k, const In* const* x, float (*y)[kPanel]) {
    constexpr int S = streams(M * kParts, 1);
    const int64_t lag = rows / (S * kRows) * kRows;
    for (int64_t r = 0; r < lag; r += kRows) some<M, S>(w, lag, k, x, y, r);
    for (int64_t r = S * lag; r < rows; r += kRows) some<M, 1>(w, 0, k, x, y, r);
  }

  template <int M, int S>
  static inline void some(const Raw* w, int64_t lag, int64_t k, const In* const* x, float (*y)[kPanel], int64_t r) {
    constexpr int U = 4;  // divides k in this layout
    Vec acc[S][M][kParts] = {};
    for (int64_t at = 0; at < k; at += U)
      for (int s = 0; s < S; s++)
        for (int u = 0; u < U; u++)
          for (int p = 0; p < kParts; p++) {
            const Vec column = D::load(w + (r + s * lag) * k + (at + u) * kRows + p * kLanes);
            for (int m = 0; m < M; m++) acc[s][m][p] += column * x[m][at + u];
          }
    for (int s = 0; s < S; s++)
      for (int m = 0; m < M; m++)
        for (int p = 0; p < kParts; p++) *(VecU*)(&y[m][r + s * lag + p * kLanes]) = acc[s][m][p];
  }
};

#if defined(__AVX512BF16__)

// bf16 products in pairs, summed in fp32 by the processor.

static inline __m512bh broadcast_pair(const uint16_t* p) {
  int32_t pair;
  std::memcpy(&pair, p, 4);
  return (__m512bh)_mm512_set1_epi32(pair);
}

struct PairsDotBf16 {
  typedef uint16_t Raw;
  typedef uint16_t In;
  static inline In keep(float x) { return float_to_bf16(x); }
  static inline In take(Raw r) { return r; }

  template <int M>
  static inline void panel(const Raw* w, int64_t rows, int64_t k, const In* const* x, float (*y)[kPanel]) {
    constexpr int S = streams(M, M);
    const int64_t lag = rows / (S * kRows) * kRows;
    for (int64_t r = 0; r < lag; r += kRows) some<M, S>(w, lag, k, x, y, r);
    for (int64_t r = S * lag; r < rows; r += kRows) some<M, 1>(w, 0, k, x, y, r);
  }

  template <int M, int S>
  static inline void some(const Raw* w, int64_t lag, int64_t k, const In* const* x, float (*y)[kPanel], int64_t r) {
    constexpr int U = lines(M, M);  // divides k / 2 in this layout
    __m512 acc[S][M];
    for (int s = 0; s < S; s++)
      for (int m = 0; m < M; m++) acc[s][m] = _mm512_setzero_ps();
    for (int64_t at = 0; at < k; at += 2 * U) {
      __m512bh vector[U][M];
#pragma GCC unroll 4
      for (int u = 0; u < U; u++)
#pragma GCC unroll 8
        for (int m = 0; m < M; m++) vector[u][m] = broadcast_pair(x[m] + at + 2 * u);
#pragma GCC unroll 4
      for (int s = 0; s < S; s++)
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) {
          const Raw* line = w + (r + s * lag) * k + (at + 2 * u) * kRows;
          const __m512bh column = (__m512bh)_mm512_loadu_si512(line);
#pragma GCC unroll 8
          for (int m = 0; m < M; m++) acc[s][m] = _mm512_dpbf16_ps(acc[s][m], column, vector[u][m]);
        }
    }
    for (int s = 0; s < S; s++)
      for (int m = 0; m < M; m++) _mm512_storeu_ps(&y[m][r + s * lag], acc[s][m]);
  }
};

struct RowsDotBf16 {
  typedef uint16_t Raw;
  typedef uint16_t In;
  static inline In keep(float x) { return float_to_bf16(x); }
  static inline In take(Raw r) { return r; }

  template <int M>
  static inline void panel(const Raw* w, int64_t rows, int64_t k, const In* const* x, float (*y)[kPanel]) {
    constexpr int S = streams(M, M);
    const int64_t lag = rows / S;
    for (int64_t r = 0; r < lag; r++) some<M, S>(w, lag, k, x, y, r);
    for (int64_t r = S * lag; r < rows; r++) some<M, 1>(w, 0, k, x, y, r);
  }

  template <int M, int S>
  static inline void some(const Raw* w, int64_t lag, int64_t k, const In* const* x, float (*y)[kPanel], int64_t r) {
    constexpr int U = lines(M, M);
    __m512 acc[S][M];
    for (int s = 0; s < S; s++)
      for (int m = 0; m < M; m++) acc[s][m] = _mm512_setzero_ps();
    int64_t at = 0;
    for (; at + 32 * U <= k; at += 32 * U) {
      __m512bh vector[U][M];
#pragma GCC unroll 4
      for (int u = 0; u < U; u++)
#pragma GCC unroll 8
        for (int m = 0; m < M; m++) vector[u][m] = (__m512bh)_mm512_loadu_si512(x[m] + at + 32 * u);
#pragma GCC unroll 4
      for (int s = 0; s < S; s++)
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) {
          const __m512bh part = (__m512bh)_mm512_loadu_si512(w + (r + s * lag) * k + at + 32 * u);
#pragma GCC unroll 8
          for (int m = 0; m < M; m++) acc[s][m] = _mm512_dpbf16_ps(acc[s][m], part, vector[u][m]);
        }
    }
    for (; at < k; at += 32) {
      const __mmask32 mask = k - at >= 32 ? ~0u : (1u << (k - at)) - 1;
      for (int s = 0; s < S; s++) {
        const __m512bh part = (__m512bh)_mm512_maskz_loadu_epi16(mask, w + (r + s * lag) * k + at);
        for (int m = 0; m < M; m++)
          acc[s][m] = _mm512_dpbf16_ps(acc[s][m], part, (__m512bh)_mm512_maskz_loadu_epi16(mask, x[m] + at));
      }
    }
    for (int s = 0; s < S; s++)
      for (int m = 0; m < M; m++) y[m][r + s * lag] = sum(acc[s][m]);
  }
};

#endif

// ---- activations ------------------------------------------------------------------------------------------

// e^x by 2^n·e^r with |r| ≤ ln 2 / 2 and the Taylor polynomial of degree 7: within 2 units in the last place.
static inline Vec exp_of(Vec x) {
  const Vec low = splat(-87.0f), high = splat(88.0f);
  const Bits is_low = (Bits)(x < low), is_high = (Bits)(x > high);
  Vec c = (Vec)(((Bits)low & is_low) | ((Bits)x & ~is_low));
  c = (Vec)(((Bits)high & is_high) | ((Bits)c & ~is_high));
  const Vec magic = splat(12582912.0f);  // 1.5·2^23: adding it rounds to an integer
  const Vec t = c * 1.44269504f + magic;
  const Vec n = t - magic;
  const Vec r = (c - n * 0.693145752f) - n * 1.42860677e-6f;
  Vec p = splat(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const Bits scale = ((Bits)t - (Bits)magic + 127u) << 23;
  const Vec y = p * (Vec)scale;
  const Bits is_nan = (Bits)(x != x);
  return (Vec)(((Bits)x & is_nan) | ((Bits)y & ~is_nan));
}

static inline float gelu(float x) { return 0.5f * x * (1.0f + std::erf(x * 0.70710678f)); }

static inline float gelu_tanh(float x) {
  return 0.5f * x * (1.0f + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
}

// gate[r] = act(gate[r])·up[r]; both have room for whole blocks.
static inline void activate(int32_t kind, int64_t rows, float* gate, const float* up) {
  if (kind == ENGINEX_SILU) {
    for (int64_t p = 0; p < rows; p += kLanes) {
      const Vec g = *(const VecU*)(gate + p), u = *(const VecU*)(up + p);
      *(VecU*)(gate + p) = g / (1.0f + exp_of(-g)) * u;
    }
    return;
  }
  for (int64_t r = 0; r < rows; r++) gate[r] = (kind == ENGINEX_GELU ? gelu(gate[r]) : gelu_tanh(gate[r])) * up[r];
}

// ---- the layer ---------------------------------------------------------------------------------------------

struct Pair {
  int32_t token, slot;
};

// The (expert, token) pairs sorted by expert: group g is expert experts[g] with pairs starts[g] … starts[g+1]-1.
struct Plan {
  std::vector<int32_t> experts, starts, counts;
  std::vector<Pair> pairs;

  int32_t make(const EnginexMoe& a) {
    counts.assign(a.experts, 0);
    const int64_t total = a.tokens * a.topk;
    for (int64_t i = 0; i < total; i++) {
      const int32_t e = a.topk_ids[i];
      if (e < 0 || e >= a.experts) return ENGINEX_BAD_EXPERT;
      counts[e]++;
    }
    experts.clear();
    starts.clear();
    int32_t at = 0;
    for (int32_t e = 0; e < a.experts; e++) {
      if (counts[e] == 0) continue;
      experts.push_back(e);
      starts.push_back(at);
      const int32_t n = counts[e];
      counts[e] = at;  // from here on: where the expert's next pair goes
      at += n;
    }
    starts.push_back(at);
    pairs.resize(total);
    for (int64_t i = 0; i < total; i++)
      pairs[counts[a.topk_ids[i]]++] = {int32_t(i / a.topk), int32_t(i % a.topk)};
    return ENGINEX_OK;
  }
};

template <class Dot>
static inline void panel_of(int m, const typename Dot::Raw* w, int64_t rows, int64_t k,
                            const typename Dot::In* const* x, float (*y)[kPanel]) {
  switch (m) {
    case 1: return Dot::template panel<1>(w, rows, k, x, y);
    case 2: return Dot::template panel<2>(w, rows, k, x, y);
    case 3: return Dot::template panel<3>(w, rows, k, x, y);
    case 4: return Dot::template panel<4>(w, rows, k, x, y);
    case 5: return Dot::template panel<5>(w, rows, k, x, y);
    case 6: return Dot::template panel<6>(w, rows, k, x, y);
    case 7: return Dot::template panel<7>(w, rows, k, x, y);
    default: return Dot::template panel<8>(w, rows, k, x, y);
  }
}

template <class Dot>
struct Layer {
  typedef typename Dot::Raw Raw;
  typedef typename Dot::In In;

  const EnginexMoe& a;
  const Plan& plan;
  const In* x;  // [tokens, width]
  In* h;        // [pairs, inner]
  float* out;   // [tokens, width]

  Layer(const EnginexMoe& args, const Plan& p) : a(args), plan(p) {}

  // h[row … end) of one group.
  void gate_panel(int64_t group, int64_t row, int64_t end) const {
    const int64_t e = plan.experts[group], rows = end - row;
    const Raw* base = (const Raw*)a.w13 + e * 2 * a.inner * a.width;
    alignas(64) float gate[kMost][kPanel], up[kMost][kPanel];
    for (int32_t from = plan.starts[group]; from < plan.starts[group + 1]; from += kMost) {
      const int m = std::min<int32_t>(kMost, plan.starts[group + 1] - from);
      const In* at_x[kMost];
      for (int i = 0; i < m; i++) at_x[i] = x + int64_t(plan.pairs[from + i].token) * a.width;
      panel_of<Dot>(m, base + row * a.width, rows, a.width, at_x, gate);
      panel_of<Dot>(m, base + (a.inner + row) * a.width, rows, a.width, at_x, up);
      for (int i = 0; i < m; i++) {
        if (a.b13 != nullptr) {
          const float* bias = a.b13 + e * 2 * a.inner + row;
          for (int64_t r = 0; r < rows; r++) gate[i][r] += bias[r], up[i][r] += bias[a.inner + r];
        }
        activate(a.activation, rows, gate[i], up[i]);
        In* to = h + (from + i) * a.inner + row;
        for (int64_t r = 0; r < rows; r++) to[r] = Dot::keep(gate[i][r]);
      }
    }
  }

  // One group's part of the outputs [row … end).
  void out_panel(int64_t group, int64_t row, int64_t end) const {
    const int64_t e = plan.experts[group], rows = end - row;
    const Raw* w = (const Raw*)a.w2 + (e * a.width + row) * a.inner;
    alignas(64) float y[kMost][kPanel];
    for (int32_t from = plan.starts[group]; from < plan.starts[group + 1]; from += kMost) {
      const int m = std::min<int32_t>(kMost, plan.starts[group + 1] - from);
      const In* at_h[kMost];
      for (int i = 0; i < m; i++) at_h[i] = h + (from + i) * a.inner;
      panel_of<Dot>(m, w, rows, a.inner, at_h, y);
      for (int i = 0; i < m; i++) {
        const Pair pair = plan.pairs[from + i];
        const float weight = a.topk_weights[pair.token * a.topk + pair.slot];
        float* to = out + pair.token * a.width + row;
        if (a.b2 != nullptr) {
          const float* bias = a.b2 + e * a.width + row;
          for (int64_t r = 0; r < rows; r++) y[i][r] += bias[r];
        }
        for (int64_t r = 0; r < rows; r++) to[r] += weight * y[i][r];
      }
    }
  }
};

// Scratch memory is kept between calls: a step must not wait for the allocator.
template <class T>
static T* scratch(std::vector<char>& room, int64_t n) {
  const size_t bytes = size_t(n) * sizeof(T) + 128;
  if (room.size() < bytes) room.resize(bytes);
  const uintptr_t at = (uintptr_t(room.data()) + 63) & ~uintptr_t(63);
  return (T*)at;
}

// How many rows of one expert are a unit of work: long panels are read faster, and enough units keep a slow thread
// from holding the others up.
static inline int64_t panel_rows(int64_t groups, int64_t rows, int64_t threads) {
  int64_t panel = kPanel;
  while (panel > kRows && (panel / 2 >= rows || groups * ((rows + panel - 1) / panel) < 4 * threads)) panel /= 2;
  return panel;
}

template <class D, class Dot>
static int32_t layer(const EnginexMoe& a) {
  typedef typename Dot::In In;
  static thread_local Plan plan;
  static thread_local std::vector<char> room_x, room_h, room_out;
  const int32_t status = plan.make(a);
  if (status != ENGINEX_OK) return status;
  const int64_t pairs = a.tokens * a.topk, groups = int64_t(plan.experts.size());
  Layer<Dot> work(a, plan);
  const auto* hidden = (const typename D::Raw*)a.hidden;
  In* copy = nullptr;
  if constexpr (std::is_same_v<In, typename D::Raw>)
    work.x = hidden;
  else
    work.x = copy = scratch<In>(room_x, a.tokens * a.width);
  work.h = scratch<In>(room_h, pairs * a.inner);
  work.out = scratch<float>(room_out, a.tokens * a.width);

  auto* out = (typename D::Raw*)a.out;
  std::atomic<int64_t> next_gate{0}, next_out{0};

#pragma omp parallel
  {
    const int threads = omp_get_num_threads();
    if (copy != nullptr) {
#pragma omp for schedule(static)
      for (int64_t i = 0; i < a.tokens * a.width; i++) copy[i] = Dot::take(hidden[i]);
    }

    const int64_t panel = panel_rows(groups, a.inner, threads);
    const int64_t panels = (a.inner + panel - 1) / panel;
    for (;;) {
      const int64_t i = next_gate.fetch_add(1);
      if (i >= groups * panels) break;
      const int64_t row = i % panels * panel;
      work.gate_panel(i / panels, row, std::min(row + panel, a.inner));
    }
#pragma omp barrier

    // A thread takes a range of outputs and goes through all experts with it.
    const int64_t part = panel_rows(1, (a.width + 2 * threads - 1) / (2 * threads), 0);
    const int64_t range = std::max<int64_t>(1, a.width / (2 * threads) / part) * part;
    for (;;) {
      const int64_t left = next_out.fetch_add(range);
      if (left >= a.width) break;
      const int64_t right = std::min(left + range, a.width);
      for (int64_t t = 0; t < a.tokens; t++)
        std::memset(work.out + t * a.width + left, 0, (right - left) * sizeof(float));
      for (int64_t g = 0; g < groups; g++)
        for (int64_t row = left; row < right; row += part) work.out_panel(g, row, std::min(row + part, right));
      for (int64_t t = 0; t < a.tokens; t++)
        for (int64_t i = left; i < right; i++) out[t * a.width + i] = D::round(work.out[t * a.width + i]);
    }
  }
  return ENGINEX_OK;
}

template <class D>
static int32_t of_dtype(const EnginexMoe& a) {
  if (a.layout == ENGINEX_ROWS) return layer<D, RowsDot<D>>(a);
  if (a.layout == ENGINEX_LANES) return layer<D, LanesDot<D>>(a);
  return ENGINEX_BAD_KIND;
}

int32_t moe(const EnginexMoe& a) {
  try {
#if defined(__AVX512BF16__)
    if (a.dtype == ENGINEX_BF16 && a.layout == ENGINEX_PAIRS) return layer<Bf16, PairsDotBf16>(a);
    if (a.dtype == ENGINEX_BF16 && a.layout == ENGINEX_ROWS) return layer<Bf16, RowsDotBf16>(a);
#endif
    if (a.dtype == ENGINEX_BF16) return of_dtype<Bf16>(a);
    if (a.dtype == ENGINEX_FP16) return of_dtype<Fp16>(a);
    if (a.dtype == ENGINEX_FP32) return of_dtype<Fp32>(a);
    return ENGINEX_BAD_KIND;
  } catch (const std::bad_alloc&) {
    return ENGINEX_NO_MEMORY;
  }
}

// Reads `bytes` at `from` once, with all threads, as the kernels do, and returns what depends on every word of it.
double read_all(const void* from, int64_t bytes) {
  constexpr int kPlaces = 8;  // more than the kernels have registers for, and a little faster still
  constexpr int64_t kLong = 64 << 10;  // bytes
  const int64_t step = 2 * kLanes, longest = kLong / int64_t(sizeof(float));
  const int64_t chunks = bytes / (kPlaces * kLong);
  double total = 0;
#pragma omp parallel reduction(+ : total)
  {
    Bits acc[kPlaces] = {};
#pragma omp for schedule(static)
    for (int64_t i = 0; i < chunks; i++) {
      const float* p = (const float*)from + i * kPlaces * longest;
      for (int64_t at = 0; at < longest; at += step)
        for (int s = 0; s < kPlaces; s++)
          acc[s] ^= (Bits) * (const VecU*)(p + s * longest + at) ^ (Bits) * (const VecU*)(p + s * longest + at + kLanes);
    }
    for (int s = 0; s < kPlaces; s++)
      for (int i = 0; i < kLanes; i++) total += double(acc[s][i]);
  }
  return total;
}

}  // namespace
