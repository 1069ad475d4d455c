// Every limit on what a file may ask for, in one place; the documentation's table is made from here.
#pragma once

#include <cstdint>

namespace damacy {

struct Limits {
  static constexpr std::uint64_t uri_bytes = 4096;
  static constexpr std::uint64_t key_bytes = 1024;
  static constexpr std::uint64_t key_components = 64;
  static constexpr std::uint64_t array_document_bytes = 1 << 20;
  static constexpr std::uint64_t group_document_bytes = 64 << 20;
  static constexpr std::uint64_t references = 1 << 22;
  static constexpr std::uint64_t json_nesting = 64;
  static constexpr std::uint64_t json_members = 4096;
  static constexpr std::uint64_t json_string_bytes = 64 << 10;
  static constexpr std::uint64_t json_number_chars = 64;
  static constexpr std::uint64_t ngff_values = 1 << 18;
  static constexpr std::uint64_t rank = 32;
  static constexpr std::uint64_t codecs = 32;  // each is a pass over a chunk, and two or three are common
  static constexpr std::uint64_t chunks_per_sample = 1 << 18;  // of one part
  static constexpr std::uint64_t pieces_per_sample = 1 << 16;  // of one part
  static constexpr std::uint64_t border_positions = 1 << 24;   // on one side of one axis
  static constexpr std::uint64_t indices_per_axis = 4096;
  static constexpr std::uint64_t arrays_per_sample = 64;
  static constexpr std::uint64_t parts_per_sample = 4096;
  static constexpr std::uint64_t array_name_bytes = 256;
  static constexpr std::uint64_t chunk_records_planned = 1 << 16;
  static constexpr std::uint64_t shard_index_entries = 1 << 20;
  static constexpr std::uint64_t max_chunk_bytes = 1 << 30;             // in a pipeline
  static constexpr std::uint64_t max_element_chunk_bytes = 0x7fffffff;  // elsewhere
  static constexpr std::uint64_t zstd_frames = 64;
  static constexpr std::uint64_t zstd_window = std::uint64_t{1} << 31;
  static constexpr std::uint64_t lzma_memory_bytes = 72 << 20;  // the largest preset takes 65 MiB
  static constexpr std::uint64_t blosc_typesize = 255;
  static constexpr std::uint64_t storage_operation_s = 60;
  static constexpr std::uint64_t threads = 1024;
  static constexpr std::uint64_t samples_after_flush = 1 << 20;
  static constexpr std::uint64_t error_text_bytes = 4096;
  static constexpr std::uint64_t log_records_per_second = 10;  // of one kind
  static constexpr std::uint64_t merged_read_bytes = 1 << 20;
  static constexpr std::uint64_t read_gap_bytes = 4096;
  static constexpr int group_list_depth = 4;
  static constexpr int group_list_entries = 1000;
  static constexpr int group_list_shown = 20;

  static constexpr std::uint64_t encoded_chunk_bytes(std::uint64_t decoded) noexcept {
    return 2 * decoded + (64 << 10);
  }
  static constexpr std::uint64_t lzma_memory(std::uint64_t decoded) noexcept { return lzma_memory_bytes + 2 * decoded; }
  // Small chunks may hold blocks of any size: files made by hand do.
  static constexpr std::uint64_t zstd_blocks(std::uint64_t decoded) noexcept { return decoded + 4096; }
  static constexpr std::uint64_t blosc_blocks(std::uint64_t decoded) noexcept { return decoded / 16 + 4096; }
};

}  // namespace damacy
