// What the codec fuzz targets share: buffers that end at a forbidden page, mutations of good frames, and a check that
// stops the fuzzer.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

namespace damacy::fuzz {

using Bytes = std::vector<std::byte>;

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// Spans that end where a page begins that may not be touched: reference libraries are not instrumented, so the address
// sanitizer alone would miss what they read or write too much.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t capacity) : capacity_(round_up(capacity)) {
    void* memory = ::mmap(nullptr, capacity_ + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "mmap");
    begin_ = static_cast<std::byte*>(memory);
    require(::mprotect(begin_ + capacity_, page(), PROT_NONE) == 0, "mprotect");
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  std::span<std::byte> filled(std::size_t size, std::byte poison) {
    require(size <= capacity_, "capacity of a guarded buffer");
    const std::span<std::byte> bytes(begin_ + capacity_ - size, size);
    std::memset(bytes.data(), static_cast<int>(poison), size);
    return bytes;
  }

  std::span<std::byte> copy_of(std::span<const std::byte> from) {
    const std::span<std::byte> bytes = filled(from.size(), std::byte{0});
    if (!from.empty()) std::memcpy(bytes.data(), from.data(), from.size());
    return bytes;
  }

 private:
  static std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
  static std::size_t round_up(std::size_t size) { return (size + page() - 1) / page() * page(); }

  std::byte* begin_;
  std::size_t capacity_;
};

inline Bytes taken(FuzzedDataProvider& data, std::size_t most) {
  const std::string text = data.ConsumeRandomLengthString(most);
  Bytes bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// Contents that compress: a few pieces, each repeated. Most are small: a large one takes as long as dozens of them.
inline Bytes contents(FuzzedDataProvider& data, std::size_t most) {
  if (data.remaining_bytes() % 8 != 0) most = std::min<std::size_t>(most, 2048);
  Bytes all;
  for (int pieces = data.ConsumeIntegralInRange(1, 5); pieces > 0; --pieces) {
    const Bytes piece = taken(data, 64);
    const auto times = data.ConsumeIntegralInRange<std::size_t>(1, 400);
    for (std::size_t i = 0; i < times && all.size() + piece.size() <= most && !piece.empty(); ++i) {
      all.insert(all.end(), piece.begin(), piece.end());
      if (i % 7 == 6) all.back() ^= static_cast<std::byte>(i);
    }
  }
  return all;
}

// A few bytes changed, and perhaps the end cut off.
inline void mutate(FuzzedDataProvider& data, Bytes& bytes) {
  for (int changes = data.ConsumeIntegralInRange(0, 4); changes > 0 && !bytes.empty(); --changes)
    bytes[data.ConsumeIntegralInRange<std::size_t>(0, bytes.size() - 1)] ^=
        data.ConsumeIntegral<std::uint8_t>() == 0 ? std::byte{0xff} : std::byte{data.ConsumeIntegral<std::uint8_t>()};
  if (data.ConsumeIntegralInRange(0, 15) == 0 && !bytes.empty())
    bytes.resize(data.ConsumeIntegralInRange<std::size_t>(0, bytes.size() - 1));
}

// Frames that `good_frame` makes, one after another, and mutated; or any bytes. `size`: what they are said to decode
// to.
template <class GoodFrame>
Bytes frames_or_noise(FuzzedDataProvider& data, std::size_t most, GoodFrame good_frame, std::size_t& size) {
  Bytes encoded;
  if (data.ConsumeBool()) {
    for (int frames = data.ConsumeIntegralInRange(1, 3); frames > 0; --frames) {
      const Bytes frame = good_frame(data, size);
      encoded.insert(encoded.end(), frame.begin(), frame.end());
    }
    mutate(data, encoded);
  } else {
    size = data.ConsumeIntegral<std::uint16_t>();
    encoded = taken(data, most);
  }
  return encoded;
}

}  // namespace damacy::fuzz
