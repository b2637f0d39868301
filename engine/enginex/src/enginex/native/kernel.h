// What Python and the kernels agree on. All sizes are in elements, all tensors are contiguous.
#pragma once

#include <cstdint>

// Raise this whenever the struct or the meaning of a field changes: Python refuses another number.
#define ENGINEX_ABI 1

enum EnginexDtype : int32_t { ENGINEX_BF16 = 0, ENGINEX_FP16 = 1, ENGINEX_FP32 = 2 };

// How a matrix of N rows and K columns lies in memory.
//   ROWS   [N][K]
//   PAIRS  [N/16][K/2][16][2]   sixteen rows abreast, columns in pairs (what vLLM packs for AMX)
//   LANES  [N/16][K][16]        sixteen rows abreast (what vLLM packs without AMX)
enum EnginexLayout : int32_t { ENGINEX_ROWS = 0, ENGINEX_PAIRS = 1, ENGINEX_LANES = 2 };

enum EnginexActivation : int32_t { ENGINEX_SILU = 0, ENGINEX_GELU = 1, ENGINEX_GELU_TANH = 2 };

enum EnginexStatus : int32_t {
  ENGINEX_OK = 0,
  ENGINEX_BAD_EXPERT = 1,   // an expert's number is outside of 0 … experts-1
  ENGINEX_BAD_SHAPE = 2,    // a packed layout with a size that it cannot have
  ENGINEX_BAD_KIND = 3,     // a dtype, layout or activation that is unknown, or that do not go together
  ENGINEX_NO_MEMORY = 4,
};

struct EnginexMoe {
  const void* hidden;         // [tokens, width]
  void* out;                  // [tokens, width]
  const void* w13;            // experts × (2·inner × width) in `layout`, the gate first
  const void* w2;             // experts × (width × inner) in `layout`
  const float* b13;           // [experts, 2·inner] or null
  const float* b2;            // [experts, width] or null
  const float* topk_weights;  // [tokens, topk]
  const int32_t* topk_ids;    // [tokens, topk]
  int64_t tokens, experts, width, inner, topk;
  int32_t dtype, layout, activation, reserved;
};
