// Stands in for nvCOMP in tests: the same functions, done at once on host memory by the reference libraries.
// FAKE_NVCOMP_VERSION says which nvCOMP it plays; FAKE_NVCOMP_HOLLOW leaves its decompressors out.
#include <lz4.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#pragma GCC visibility push(default)

namespace {

struct Options {
  alignas(4) unsigned char zero[64];
};

std::map<std::string, std::int64_t>& knobs() {
  static std::map<std::string, std::int64_t> all;
  return all;
}

std::int64_t knob(const char* name, std::int64_t otherwise) {
  const auto found = knobs().find(name);
  return found == knobs().end() ? otherwise : found->second;
}

bool all_zero(const Options& options) {
  for (const unsigned char byte : options.zero)
    if (byte != 0) return false;
  return true;
}

int temp_size(std::size_t total, const Options& options, std::size_t* bytes) {
  if (!all_zero(options)) return 10;
  *bytes = total * static_cast<std::size_t>(knob("temp_per_byte", 3));
  return 0;
}

struct Batch {
  const void* const* sources;
  const std::size_t* source_bytes;
  const std::size_t* room;
  std::size_t* produced;
  std::size_t count;
  void* temp;
  std::size_t temp_bytes;
  void* const* destinations;
  int* verdicts;
};

template <class Decode>
int decompress(const Batch& batch, const Options& options, Decode decode) {
  ++knobs()["calls"];
  if (!all_zero(options) || knob("refuse", 0) != 0) return 10;
  std::size_t total = 0;
  for (std::size_t i = 0; i < batch.count; ++i) total += batch.room[i];
  std::size_t needed = 0;
  if (temp_size(total, options, &needed) != 0 || batch.temp_bytes < needed) return 10;
  for (std::size_t k = 0; k < needed; ++k) static_cast<unsigned char*>(batch.temp)[k] = 0x5c;
  for (std::size_t i = 0; i < batch.count; ++i) {
    const std::int64_t got = decode(batch.destinations[i], batch.room[i], batch.sources[i], batch.source_bytes[i]);
    const bool half = knob("half", 0) != 0;
    batch.verdicts[i] = got < 0 ? 12 : 0;
    batch.produced[i] = got < 0 ? 0 : static_cast<std::size_t>(got) / (half ? 2 : 1);
  }
  return 0;
}

[[maybe_unused]] std::int64_t decode_zstd(void* to, std::size_t room, const void* from, std::size_t bytes) {
  const std::size_t got = ZSTD_decompress(to, room, from, bytes);
  return ZSTD_isError(got) != 0 ? -1 : static_cast<std::int64_t>(got);
}

[[maybe_unused]] std::int64_t decode_lz4(void* to, std::size_t room, const void* from, std::size_t bytes) {
  return LZ4_decompress_safe(static_cast<const char*>(from), static_cast<char*>(to), static_cast<int>(bytes),
                             static_cast<int>(room));
}

}  // namespace

extern "C" {

// temp_per_byte: temporary memory a decoded byte; refuse: every call fails; half: half of each frame is reported as a
// success. Reading "calls": how many there were.
void fake_nvcomp_set(const char* what, std::int64_t value) {
  knobs()[what] = value;
}
std::int64_t fake_nvcomp_get(const char* what) {
  return knob(what, 0);
}

int nvcompGetProperties(std::uint32_t* version_and_cuda) {
  version_and_cuda[0] = FAKE_NVCOMP_VERSION;
  version_and_cuda[1] = 13000;
  return 0;
}

#ifndef FAKE_NVCOMP_HOLLOW
#if FAKE_NVCOMP_VERSION < 6000
#define FAKE_TEMP(codec)                                                                                        \
  int nvcompBatched##codec##DecompressGetTempSizeAsync(std::size_t, std::size_t, Options o, std::size_t* bytes, \
                                                       std::size_t total) {                                     \
    return temp_size(total, o, bytes);                                                                          \
  }
#else
#define FAKE_TEMP(codec)                                                                                   \
  int nvcompBatched##codec##DecompressGetTempSize(std::size_t, std::size_t, Options o, std::size_t* bytes, \
                                                  std::size_t total, void* stream) {                       \
    return stream != nullptr ? 10 : temp_size(total, o, bytes);                                            \
  }
#endif

#define FAKE_CODEC(codec, decode)                                                                                     \
  FAKE_TEMP(codec)                                                                                                    \
  int nvcompBatched##codec##DecompressGetRequiredAlignments(Options o, std::size_t* needs) {                          \
    needs[0] = static_cast<std::size_t>(knob("alignment", 1));                                                        \
    needs[1] = static_cast<std::size_t>(knob("alignment", 1));                                                        \
    needs[2] = 8;                                                                                                     \
    return all_zero(o) ? 0 : 10;                                                                                      \
  }                                                                                                                   \
  int nvcompBatched##codec##DecompressAsync(const void* const* sources, const std::size_t* source_bytes,              \
                                            const std::size_t* room, std::size_t* produced, std::size_t count,        \
                                            void* temp, std::size_t temp_bytes, void* const* destinations, Options o, \
                                            int* verdicts, void*) {                                                   \
    return decompress({sources, source_bytes, room, produced, count, temp, temp_bytes, destinations, verdicts}, o,    \
                      decode);                                                                                        \
  }

FAKE_CODEC(Zstd, decode_zstd)
FAKE_CODEC(LZ4, decode_lz4)
#endif

}  // extern "C"

#pragma GCC visibility pop
