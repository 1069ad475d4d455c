// Short ways to libbz2's and liblzma's encoders, for tests and fuzz targets. Not part of the library.
#pragma once

#include <bzlib.h>
#include <lzma.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "damacy/codec/lzma.h"

namespace damacy::codec_test {

inline std::vector<std::byte> bzip2_packed(std::span<const std::byte> raw, int level = 1) {
  std::vector<std::byte> packed(raw.size() + raw.size() / 100 + 700);
  auto size = static_cast<unsigned>(packed.size());
  auto* const from = const_cast<char*>(reinterpret_cast<const char*>(raw.data()));
  char none = 0;
  const int code = BZ2_bzBuffToBuffCompress(reinterpret_cast<char*>(packed.data()), &size, from ? from : &none,
                                            static_cast<unsigned>(raw.size()), level, 0, 0);
  if (code != BZ_OK) throw std::runtime_error("BZ2_bzBuffToBuffCompress");
  packed.resize(size);
  return packed;
}

// Filters as metadata would list them: a delta of two bytes, then LZMA.
inline std::vector<LzmaFilter> two_filters(std::uint64_t last, std::uint32_t dictionary) {
  return {{.id = LzmaFilter::kDelta, .distance = 2}, {.id = last, .dictionary = dictionary}};
}

// Of raw containers `format.filters` as two_filters() gives them. `dictionary` is for the others.
inline std::vector<std::byte> lzma_packed(const LzmaFormat& format, std::span<const std::byte> raw,
                                          lzma_check check = LZMA_CHECK_CRC64, std::uint32_t dictionary = 1 << 16) {
  lzma_options_lzma options{};
  lzma_lzma_preset(&options, 1);
  options.dict_size = format.filters.empty() ? dictionary : format.filters.back().dictionary;
  lzma_options_delta delta{};
  delta.type = LZMA_DELTA_TYPE_BYTE;
  delta.dist = 2;
  lzma_stream stream = LZMA_STREAM_INIT;
  lzma_ret code = LZMA_OK;
  if (format.container == LzmaFormat::Container::alone) {
    code = lzma_alone_encoder(&stream, &options);
  } else if (format.container == LzmaFormat::Container::xz) {
    const lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
    code = lzma_stream_encoder(&stream, filters, check);
  } else {
    const lzma_filter filters[] = {
        {LZMA_FILTER_DELTA, &delta}, {format.filters.back().id, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
    code = lzma_raw_encoder(&stream, filters);
  }
  std::vector<std::byte> packed(raw.size() + raw.size() / 2 + 1000);
  stream.next_in = reinterpret_cast<const std::uint8_t*>(raw.data());
  stream.avail_in = raw.size();
  stream.next_out = reinterpret_cast<std::uint8_t*>(packed.data());
  stream.avail_out = packed.size();
  if (code == LZMA_OK) code = lzma_code(&stream, LZMA_FINISH);
  packed.resize(packed.size() - stream.avail_out);
  lzma_end(&stream);
  if (code != LZMA_STREAM_END) throw std::runtime_error("lzma_code");
  return packed;
}

}  // namespace damacy::codec_test
