// For tests: blosclz and snappy once more, each way. Packers that know runs and repeats, and decoders that follow the
// formats' words byte by byte. Share nothing with the ones under test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace damacy::codec_test {

// A match of what stands at `at`: the longest of a few distances, at least 4 and at most 64 bytes. 0: none.
inline std::size_t find_match(std::span<const std::byte> raw, std::size_t at, std::size_t& distance) {
  std::size_t longest = 0;
  for (const std::size_t d : {1, 2, 3, 4, 8, 17, 256, 1000, 8191, 8192, 9000, 40'000}) {
    if (d > at) break;
    std::size_t length = 0;
    while (length < 64 && at + length < raw.size() && raw[at + length] == raw[at + length - d]) ++length;
    if (length > longest) longest = length, distance = d;
  }
  return longest >= 4 ? longest : 0;
}

// Calls literals(span) and match(length, distance) in turn; the last bytes are literals, as many as `tail`.
template <class Literals, class Match>
void split(std::span<const std::byte> raw, std::size_t tail, Literals literals, Match match) {
  std::size_t from = 0;
  const std::size_t end = raw.size() - std::min(tail, raw.size());
  for (std::size_t at = 0; at < end;) {
    std::size_t distance = 0;
    const std::size_t length = std::min(find_match(raw, at, distance), end - at);
    if (length < 4) {
      ++at;
      continue;
    }
    literals(raw.subspan(from, at - from));
    match(length, distance);
    from = at += length;
  }
  literals(raw.subspan(from));
}

inline std::vector<std::byte> snappy_packed(std::span<const std::byte> raw) {
  std::vector<std::byte> out;
  const auto put = [&](std::size_t value) { out.push_back(static_cast<std::byte>(value)); };
  std::size_t size = raw.size();
  for (; size >= 128; size >>= 7) put(size | 128);
  put(size);
  split(
      raw, 0,
      [&](std::span<const std::byte> part) {
        if (part.empty()) return;
        const std::size_t length = part.size() - 1;
        if (length < 60) {
          put(length << 2);
        } else {
          put(62 << 2);  // three bytes of length
          for (int i = 0; i < 3; ++i) put(length >> (8 * i));
        }
        out.insert(out.end(), part.begin(), part.end());
      },
      [&](std::size_t length, std::size_t distance) {
        if (length < 12 && distance < 2048) {
          put(distance >> 8 << 5 | (length - 4) << 2 | 1);
          put(distance);
          return;
        }
        const int bytes = distance % 2 == 0 ? 2 : 4;
        put((length - 1) << 2 | (bytes == 2 ? 2u : 3u));
        for (int i = 0; i < bytes; ++i) put(distance >> (8 * i));
      });
  return out;
}

inline std::vector<std::byte> blosclz_packed(std::span<const std::byte> raw) {
  std::vector<std::byte> out;
  const auto put = [&](std::size_t value) { out.push_back(static_cast<std::byte>(value)); };
  split(
      raw, 1,
      [&](std::span<const std::byte> part) {
        while (!part.empty()) {
          const std::size_t count = std::min<std::size_t>(part.size(), 32);
          put(count - 1);
          out.insert(out.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
          part = part.subspan(count);
        }
      },
      [&](std::size_t length, std::size_t distance) {
        const std::size_t far = distance - 1, upper = far < 8191 ? far >> 8 : 31, rest = length - 2;
        put(std::min<std::size_t>(rest, 7) << 5 | upper);
        if (rest >= 7) put(rest - 7);
        put(far < 8191 ? far : 255);
        if (far >= 8191) put((far - 8191) >> 8), put(far - 8191);
      });
  return out;
}

// An answer, or nothing where the format forbids the bytes.
class NaiveBytes {
 public:
  NaiveBytes(std::span<const std::byte> in, std::size_t size) : in_(in), size_(size) {}

  std::optional<std::vector<std::byte>> snappy() {
    std::size_t size = 0, shift = 0, part = 128;
    for (; part >= 128; shift += 7) {
      if (!next(part) || shift > 28) return std::nullopt;
      size |= (part & 127) << shift;
    }
    while (at_ < in_.size()) {
      std::size_t tag = 0, value = 0;
      next(tag);
      const std::size_t kind = tag & 3;
      const std::size_t count = kind == 0 ? (tag >> 2 < 60 ? 0 : (tag >> 2) - 59) : kind == 3 ? 4 : kind;
      for (std::size_t i = 0; i < count; ++i) {
        std::size_t byte = 0;
        if (!next(byte)) return std::nullopt;
        value |= byte << (8 * i);
      }
      bool ok = false;
      if (kind == 0)
        ok = literals((count == 0 ? tag >> 2 : value) + 1);
      else if (kind == 1)
        ok = match((tag >> 2 & 7) + 4, (tag >> 5) * 256 + value);
      else
        ok = match((tag >> 2) + 1, value);
      if (!ok) return std::nullopt;
    }
    return size == size_ && out_.size() == size_ ? std::optional(out_) : std::nullopt;
  }

  std::optional<std::vector<std::byte>> blosclz() {
    std::size_t control = 0;
    for (bool first = true; next(control); first = false) {
      if (first) control %= 32;
      bool ok = false;
      if (control < 32) {
        ok = literals(control + 1);
      } else {
        std::size_t length = control / 32 + 2, byte = 255, high = 0, low = 0;
        while (control / 32 == 7 && byte == 255) {
          if (!next(byte)) return std::nullopt;
          length += byte;
        }
        if (!next(byte)) return std::nullopt;
        std::size_t distance = control % 32 * 256 + byte + 1;
        if (distance == 8192) {
          if (!next(high) || !next(low)) return std::nullopt;
          distance += high * 256 + low;
        }
        ok = at_ < in_.size() && match(length, distance);
      }
      if (!ok) return std::nullopt;
    }
    return out_.size() == size_ ? std::optional(out_) : std::nullopt;
  }

 private:
  bool next(std::size_t& byte) {
    if (at_ == in_.size()) return false;
    byte = static_cast<std::size_t>(in_[at_++]);
    return true;
  }
  bool literals(std::size_t count) {
    if (count > in_.size() - at_ || count > size_ - out_.size()) return false;
    while (count-- != 0) out_.push_back(in_[at_++]);
    return true;
  }
  bool match(std::size_t length, std::size_t distance) {
    if (distance == 0 || distance > out_.size() || length > size_ - out_.size()) return false;
    while (length-- != 0) out_.push_back(out_[out_.size() - distance]);
    return true;
  }

  std::span<const std::byte> in_;
  std::size_t size_;
  std::size_t at_ = 0;
  std::vector<std::byte> out_;
};

}  // namespace damacy::codec_test
