// Writes small zarr v3 arrays of u16 without compression, one file a chunk, for C++ tests. Element value: its C-order
// position in the array, modulo 65536.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "damacy/core/checked.h"
#include "damacy/core/dims.h"
#include "damacy/core/formatted.h"

namespace damacy::testing {

class TempDir {
 public:
  explicit TempDir(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / formatted("damacy-{}-{}-{}", name, ::getpid(), counter()++)) {
    std::filesystem::create_directories(path_);
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  static int& counter() {
    static int count = 0;
    return count;
  }
  std::filesystem::path path_;
};

inline std::string json_list(const Dims& dims) {
  std::string out;
  for (const auto v : dims) out += formatted("{}{}", out.empty() ? "[" : ", ", v);
  return out + "]";
}

inline void write_array(const std::filesystem::path& root, const Dims& shape, const Dims& chunk) {
  std::filesystem::create_directories(root);
  std::ofstream(root / "zarr.json") << formatted(
      R"({{"zarr_format": 3, "node_type": "array", "data_type": "uint16", "fill_value": 7, )"
      R"("shape": {}, "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": {}}}}}, )"
      R"("chunk_key_encoding": {{"name": "default", "configuration": {{"separator": "."}}}}, )"
      R"("codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}]}})",
      json_list(shape), json_list(chunk));
  Dims grid(shape.size(), 0);
  for (std::size_t i = 0; i < shape.size(); ++i) grid[i] = ceil_div(shape[i], chunk[i]);
  const Dims strides = row_major_strides(shape);
  for (std::int64_t c = 0; c < *product(grid.span()); ++c) {
    std::string key = "c";
    Dims at(shape.size(), 0);
    for (std::int64_t rest = c, i = static_cast<std::int64_t>(shape.size()); i-- > 0;) {
      at[static_cast<std::size_t>(i)] = rest % grid[static_cast<std::size_t>(i)];
      rest /= grid[static_cast<std::size_t>(i)];
    }
    for (const auto v : at) key += formatted(".{}", v);
    std::vector<std::uint16_t> elements;
    for (std::int64_t e = 0; e < *product(chunk.span()); ++e) {
      std::int64_t position = 0;
      std::int64_t rest = e;
      for (std::size_t i = shape.size(); i-- > 0;) {
        position += (at[i] * chunk[i] + rest % chunk[i]) * strides[i];
        rest /= chunk[i];
      }
      elements.push_back(static_cast<std::uint16_t>(position));
    }
    std::ofstream(root / key, std::ios::binary)
        .write(reinterpret_cast<const char*>(elements.data()), static_cast<std::streamsize>(elements.size() * 2));
  }
}

// Every chunk becomes a zstd frame of raw blocks, of at most 128 KiB as the format has it.
inline void compress_chunks(const std::filesystem::path& root) {
  const auto as_bytes = [](std::uint32_t word, std::size_t count) {
    return std::string(reinterpret_cast<const char*>(&word), count);
  };
  for (const auto& file : std::filesystem::directory_iterator(root)) {
    if (file.path().filename() == "zarr.json") continue;
    std::string bytes(file.file_size(), '\0');
    std::ifstream(file.path(), std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    std::ofstream frame(file.path(), std::ios::binary);
    frame << as_bytes(0xfd2fb528, 4) << '\xa0' << as_bytes(static_cast<std::uint32_t>(bytes.size()), 4);
    constexpr std::size_t kBlock = 128 << 10;
    for (std::size_t i = 0; i < bytes.size(); i += kBlock) {
      const std::string block = bytes.substr(i, kBlock);
      const bool is_last = i + block.size() == bytes.size();
      frame << as_bytes(static_cast<std::uint32_t>(block.size() << 3) | (is_last ? 1 : 0), 3) << block;
    }
  }
  std::string document;
  std::getline(std::ifstream(root / "zarr.json"), document);
  document.insert(document.rfind(']'), R"(, {"name": "zstd"})");
  std::ofstream(root / "zarr.json") << document;
}

}  // namespace damacy::testing
