// What the fifth-generation tensor cores (sm_100a) are told: descriptors of an instruction and of operands in shared
// memory, and addresses in tensor memory (TMEM). Arithmetic without PTX, so that tests run it on a CPU.
//
// Source of every bit: PTX ISA, "TensorCore 5th Generation Family Instructions" (instruction descriptor, matrix
// descriptor, tensor memory addressing, scale factors).
#pragma once

namespace tiles {

using u32 = unsigned int;
using u64 = unsigned long long;

// The operands of a product: 16-bit values, e4m3, MXFP8 (e4m3, a power of two (ue8m0) for each 32 of K), NVFP4 (e2m1,
// an e4m3 scale for each 16 of K). Whatever the kind, one instruction takes 32 bytes of K of each row.
enum MatrixKind { kBf16, kF16, kE4m3, kMxfp8, kNvfp4 };
__device__ constexpr bool is_block_scaled(MatrixKind kind) { return kind == kMxfp8 || kind == kNvfp4; }

// d (float32, rows × columns) = a · bᵀ, both with K innermost. With one scale for each 32 of K, `scale_byte` picks the
// scale of this instruction from the four of a word.
//   bits  4-5   float32 sums (1); with block scales: scale_byte of b
//   bits  7-9   type of a     f16 0, bf16 1; e4m3 0; e2m1 1 (of the kinds with 4 bits)
//   bits 10-12  type of b
//   bits 17-22  columns / 8
//   bit  23     type of the scales: ue4m3 0, ue8m0 1
//   bits 24-28  rows / 16
//   bits 29-30  scale_byte of a
__device__ constexpr u32 instruction_descriptor(MatrixKind kind, int rows, int columns, int scale_byte = 0) {
  const u32 type = kind == kBf16 || kind == kNvfp4;
  const u32 shape = (u32)(columns / 8) << 17 | (u32)(rows / 16) << 24 | type << 7 | type << 10;
  if (!is_block_scaled(kind)) return shape | 1u << 4;
  return shape | (u32)(kind == kMxfp8) << 23 | (u32)scale_byte << 4 | (u32)scale_byte << 29;
}

// Bits of each descriptor of shared memory: the address / 16 (0-13), the step from 8 rows to the next 8, / 16 (32-45),
// a version that is 1 on sm_100 (46-47), the swizzle (61-63).
constexpr u64 kDescriptorVersion = 1ull << 46, kDescriptorSwizzle128 = 2ull << 61;

// An operand whose 128-byte rows run along K, in the 128-byte swizzle: a panel of `SharedTile`. The next instruction's
// K begins 32 bytes on: descriptor + kNextInstruction.
__device__ constexpr u64 operand_descriptor(u32 shared) {
  return kDescriptorSwizzle128 | kDescriptorVersion | (u64)(1024 >> 4) << 32 | (shared & 0x3ffff) >> 4;
}
constexpr u32 kNextInstruction = 2;

// A 16-bit operand b whose 128-byte rows run along its columns (N), in the 128-byte swizzle: [k][64 columns], one panel
// of `panel_bytes` for each 64 columns, which bits 16-29 hold / 16. Its instruction has kColumnsInnermost set. The next
// instruction's K begins 16 rows on: descriptor + kNextDepthRows.
__device__ constexpr u64 columns_descriptor(u32 shared, u32 panel_bytes) {
  return operand_descriptor(shared) | (u64)(panel_bytes >> 4) << 16;
}
constexpr u32 kColumnsInnermost = 1u << 16, kNextDepthRows = 16 * 128 >> 4;

// A tile of scales, 128 rows × 4, on its way to TMEM: 32 rows of 16 bytes, one after the other. The scale of row r and
// column c lies at byte 16 · (r mod 32) + 4 · (r / 32) + c. The copy puts the 16 bytes of row r mod 32 into four
// columns of TMEM: row r is in lane r mod 32, column r / 32, and byte c of the word.
__device__ constexpr u64 scales_descriptor(u32 shared) {
  return kDescriptorVersion | (u64)(128 >> 4) << 32 | (shared & 0x3ffff) >> 4;
}
constexpr u32 kScaleTileBytes = 512, kScaleTileColumns = 4;

// TMEM has 128 lanes of 512 columns of 32 bits. Bits 16-31 of an address are the lane, bits 0-15 the column.
constexpr u32 kTmemColumns = 512;
__device__ constexpr u32 tmem_lane(u32 address, u32 lane) { return address + (lane << 16); }

}  // namespace tiles
