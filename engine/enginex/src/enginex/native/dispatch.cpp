// Picks the kernels that this processor can run, once, when the library is first used.

#include "kernel.h"

#define ENGINEX_DECLARE(isa)            \
  namespace enginex_##isa {             \
  int32_t moe(const EnginexMoe&);       \
  double read_all(const void*, int64_t); \
  }

// The build says which instruction sets the compiler knew.
#ifdef ENGINEX_HAS_avx512bf16
ENGINEX_DECLARE(avx512bf16)
#endif
#ifdef ENGINEX_HAS_avx512
ENGINEX_DECLARE(avx512)
#endif
#ifdef ENGINEX_HAS_avx2
ENGINEX_DECLARE(avx2)
#endif
ENGINEX_DECLARE(plain)

namespace {

struct Kernels {
  const char* name;
  int32_t (*moe)(const EnginexMoe&);
  double (*read_all)(const void*, int64_t);
};

#define ENGINEX_TABLE(isa) {#isa, enginex_##isa::moe, enginex_##isa::read_all}

bool runs([[maybe_unused]] const Kernels& kernels) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  [[maybe_unused]] const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  [[maybe_unused]] const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#ifdef ENGINEX_HAS_avx512bf16
  if (kernels.moe == enginex_avx512bf16::moe) return avx512 && __builtin_cpu_supports("avx512bf16");
#endif
#ifdef ENGINEX_HAS_avx512
  if (kernels.moe == enginex_avx512::moe) return avx512;
#endif
#ifdef ENGINEX_HAS_avx2
  if (kernels.moe == enginex_avx2::moe) return avx2;
#endif
#endif
  return true;
}

const Kernels all[] = {
#ifdef ENGINEX_HAS_avx512bf16
    ENGINEX_TABLE(avx512bf16),
#endif
#ifdef ENGINEX_HAS_avx512
    ENGINEX_TABLE(avx512),
#endif
#ifdef ENGINEX_HAS_avx2
    ENGINEX_TABLE(avx2),
#endif
    ENGINEX_TABLE(plain),
};
constexpr int count = sizeof all / sizeof all[0];

int best() {
  static const int found = [] {
    for (int i = 0; i < count; i++)
      if (runs(all[i])) return i;
    return count - 1;
  }();
  return found;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int32_t enginex_abi() { return ENGINEX_ABI; }

// The instruction sets of this library, the most capable first; null after the last.
const char* enginex_isa(int32_t i) { return i >= 0 && i < count ? all[i].name : nullptr; }

// Whether this processor has it.
int32_t enginex_isa_runs(int32_t i) { return i >= 0 && i < count && runs(all[i]); }

// The one that is used unless another is named.
int32_t enginex_isa_best() { return best(); }

// Checks what the kernels rely on, then computes with instruction set `isa` (-1: the best).
int32_t enginex_moe(const EnginexMoe* a, int32_t isa) {
  if (isa < 0) isa = best();
  if (isa >= count) return ENGINEX_BAD_KIND;
  if (a->tokens < 0 || a->experts < 1 || a->width < 1 || a->inner < 1 || a->topk < 0) return ENGINEX_BAD_SHAPE;
  if (a->activation < ENGINEX_SILU || a->activation > ENGINEX_GELU_TANH) return ENGINEX_BAD_KIND;
  if (a->layout != ENGINEX_ROWS && (a->width % 32 != 0 || a->inner % 32 != 0)) return ENGINEX_BAD_SHAPE;
  if (a->tokens == 0) return ENGINEX_OK;
  return all[isa].moe(*a);
}

double enginex_read_all(const void* from, int64_t bytes) { return all[best()].read_all(from, bytes); }
}
#pragma GCC visibility pop
