// The resources of this process, to detect leaks of a run.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

namespace damacy::testing {

struct Footprint {
  std::size_t descriptors = 0, threads = 0;
};

inline Footprint footprint() {
  static const bool warm = [] {  // a sanitizer starts a thread of its own with the first thread
    std::thread([] {}).join();
    return true;
  }();
  static_cast<void>(warm);
  const auto count = [](const char* folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  };
  return {count("/proc/self/fd"), count("/proc/self/task")};
}

}  // namespace damacy::testing
