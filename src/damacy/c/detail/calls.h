// What the functions of the C interface share: exceptions become statuses, and arguments are checked. Knows no handles.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::detail {

// Inside a catch block: keeps the exception for damacy_error_text() of this thread, and returns its status.
int keep_error() noexcept;

template <class Call>
int status_of(Call&& call) noexcept {
  try {
    std::forward<Call>(call)();
    return 0;
  } catch (...) {
    return keep_error();
  }
}

inline void check_memory(const void* data, const char* name) {
  if (data == nullptr) throw Error(Status::inval, formatted("{} is NULL", name), "arguments");
}

template <class T>
T& needed(T* pointer, const char* name) {
  check_memory(pointer, name);
  return *pointer;
}

// An array of `count` entries, which may be NULL without entries.
template <class T>
std::span<T> entries(T* first, std::int64_t count, const char* name) {
  if (count < 0) throw Error(Status::inval, formatted("{}: {} entries", name, count), "arguments");
  if (count > 0) (void)needed(first, name);
  return {first, static_cast<std::size_t>(count)};
}

inline Dims dims_of(const std::int64_t* first, int rank, const char* name) {
  if (rank > static_cast<int>(kMaxRank))
    throw Error(Status::inval, formatted("{}: {} axes, at most {}", name, rank, kMaxRank), "arguments");
  return Dims::of(entries(first, rank, name));
}

// `value` as an enumerator of E, whose enumerators are 0 to `last`.
template <class E>
E enumerator(int value, E last, const char* name) {
  if (value < 0 || value > static_cast<int>(last))
    throw Error(Status::inval, formatted("{} {}: not 0 to {}", name, value, static_cast<int>(last)), "arguments");
  return static_cast<E>(value);
}

// Empty for a negative number.
inline std::optional<std::chrono::nanoseconds> timeout_of(double seconds) {
  constexpr double kMost = 1e9;  // 31 years; a nanosecond's count still fits
  if (std::isnan(seconds)) throw Error(Status::inval, "the timeout is not a number", "arguments");
  if (seconds < 0) return std::nullopt;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(seconds, kMost) * 1e9));
}

}  // namespace damacy::detail
