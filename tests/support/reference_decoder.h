// The whole decoder on the host, from the same scan, tables, history and records that the kernels use, one byte after
// the other. It is the kernels' specification: they must agree with it in every byte and verdict. Not meant to be fast.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "damacy/codec/gpu_decoder.h"
#include "damacy/codec/gpu_zstd/huffman.h"
#include "damacy/codec/gpu_zstd/sequences.h"

namespace damacy::gpu {

class ReferenceDecoder {
 public:
  // What the scan finds and what only decoding finds. Fault::ask_host when the scan says so.
  struct Outcome {
    DecodeResult scan;
    Fault fault = Fault::none;
    [[nodiscard]] bool ok() const { return scan.ok() && fault == Fault::none; }
  };

  // Exactly out.size() bytes. `needed_end` as in GpuFrame.
  [[nodiscard]] Outcome decode(std::span<const std::byte> bytes, GpuCodec codec, std::span<std::byte> out,
                               std::uint64_t needed_end = 0);

 private:
  Fault decode_blocks();
  Fault decode_block(const Block& block);
  Fault end_segment();
  Fault decode_literals(const Block& block);
  Fault decode_huffman(const Block& block);
  Fault decode_stream(const u8* bytes, u32 size, u8* to, u32 count, u32 bits);
  Fault decode_sequences(const Block& block);
  Fault execute(u32 literal_length, u32 match_length, u32 offset);
  Fault decode_lz4();
  void run_lz4_record(u64 record, u32 literal_base, u32 run_begin);
  Fault copy_out(const u8* from, u32 count);

  FrameScan scan_;
  const u8* source_ = nullptr;
  u8* out_ = nullptr;
  u32 size_ = 0;
  u32 position_ = 0;
  u32 segment_begin_ = 0;
  u32 segment_ = 0;
  u32 block_begin_ = 0;
  u32 literal_position_ = 0;
  RepeatOffsets repeats_{};
  std::vector<u8> literals_;
  std::vector<u64> records_;
  std::vector<Lz4Run> runs_;
  Weights weights_{};
  WeightsScratch weights_scratch_{};
  u16 huffman_[1u << kMaxHuffmanBits] = {};  // symbol in the low byte, bits above
  u32 tables_[3][512] = {};
};

}  // namespace damacy::gpu
