// Windows of vectors that one call may take.
#include "damacy/core/file_transfer.h"

#include <algorithm>
#include <array>

namespace damacy::detail {
namespace {

constexpr std::size_t kVectorsPerCall = 1024;  // IOV_MAX
constexpr std::size_t kWindow = 64;            // so many are copied for a call that starts or ends inside a vector

// Where a transfer goes on: so many bytes into that vector.
struct Place {
  std::size_t vector = 0;
  std::uint64_t into = 0;
};

void advance(Place& place, std::span<const iovec> vectors, std::uint64_t bytes) {
  place.into += bytes;
  while (place.vector < vectors.size() && place.into >= vectors[place.vector].iov_len) {
    place.into -= vectors[place.vector].iov_len;
    ++place.vector;
  }
}

// Vectors from `place` on, at most as many bytes as one call takes.
std::size_t window(std::array<iovec, kWindow>& out, std::span<const iovec> vectors, Place place) {
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  for (; place.vector < vectors.size() && count < kWindow && bytes < kBytesPerCall; ++place.vector, place.into = 0) {
    const iovec& from = vectors[place.vector];
    const std::uint64_t size = std::min<std::uint64_t>(from.iov_len - place.into, kBytesPerCall - bytes);
    if (size == 0) continue;
    out[count++] = {.iov_base = static_cast<std::byte*>(from.iov_base) + place.into, .iov_len = size};
    bytes += size;
  }
  return count;
}

ssize_t call(FileCalls& calls, int fd, Way way, const iovec* vectors, std::size_t count, std::uint64_t offset) {
  const int n = static_cast<int>(count);
  const auto at = static_cast<off_t>(offset);
  return way == Way::read ? calls.preadv2(fd, vectors, n, at, 0) : calls.pwritev2(fd, vectors, n, at, 0);
}

}  // namespace

Moved move_vectors(FileCalls& calls, int fd, Way way, std::span<const iovec> vectors, std::uint64_t offset) {
  std::uint64_t size = 0;
  for (const iovec& v : vectors) size += v.iov_len;
  const bool fits_one_call = size <= kBytesPerCall && vectors.size() <= kVectorsPerCall;
  Moved moved;
  Place place;
  std::uint64_t reached = 0;
  std::array<iovec, kWindow> some;
  move_on(calls, size, moved, [&](std::uint64_t done) {
    if (done == 0 && fits_one_call) return call(calls, fd, way, vectors.data(), vectors.size(), offset);
    advance(place, vectors, done - reached);
    reached = done;
    return call(calls, fd, way, some.data(), window(some, vectors, place), offset + done);
  });
  return moved;
}

}  // namespace damacy::detail
