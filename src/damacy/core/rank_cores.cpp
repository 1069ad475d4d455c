#include "damacy/core/rank_cores.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>

#include <sched.h>

namespace damacy {
namespace {

constexpr int kMostCores = 1 << 16;

struct FreeMask {
  void operator()(cpu_set_t* mask) const noexcept { CPU_FREE(mask); }
};
using Mask = std::unique_ptr<cpu_set_t, FreeMask>;

bool keep_to(const std::vector<int>& cores) noexcept {
  const Mask mask(CPU_ALLOC(kMostCores));
  if (mask == nullptr) return false;
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostCores);
  CPU_ZERO_S(bytes, mask.get());
  for (const int core : cores) CPU_SET_S(static_cast<std::size_t>(core), bytes, mask.get());
  return sched_setaffinity(0, bytes, mask.get()) == 0;
}

// Reads the number that `text` begins with, and takes it off. -1 if there is none below kMostCores.
int take_core(std::string_view& text) {
  int core = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), core);
  if (error != std::errc() || core < 0 || core >= kMostCores) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return core;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::vector<int> allowed_cores() {
  const Mask mask(CPU_ALLOC(kMostCores));
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostCores);
  if (mask == nullptr) return {};
  CPU_ZERO_S(bytes, mask.get());
  std::vector<int> cores;
  if (sched_getaffinity(0, bytes, mask.get()) != 0) return cores;
  for (int core = 0; core < kMostCores; ++core)
    if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, mask.get())) cores.push_back(core);
  return cores;
}

std::vector<int> cores_of_list(std::string_view list) {
  if (list.ends_with('\n')) list.remove_suffix(1);
  std::vector<int> cores;
  do {
    const int first = take_core(list);
    const int last = first >= 0 && take(list, '-') ? take_core(list) : first;
    if (first < 0 || last < first || (!cores.empty() && first <= cores.back())) return {};
    for (int core = first; core <= last; ++core) cores.push_back(core);
  } while (take(list, ','));
  return list.empty() ? cores : std::vector<int>();
}

std::vector<int> share_of_cores(const std::vector<int>& allowed, const std::vector<int>& near, std::size_t rank,
                                std::size_t ranks) {
  if (ranks < 2 || rank >= ranks || allowed.size() < ranks) return {};
  std::vector<int> pool;
  std::ranges::set_intersection(allowed, near, std::back_inserter(pool));
  // As many ranks as their part of the cores, each rounded to a whole one.
  const std::size_t there = std::max<std::size_t>(1, (2 * ranks * pool.size() + allowed.size()) / (2 * allowed.size()));
  const bool by_gpu = !pool.empty() && pool.size() < allowed.size() && pool.size() >= there;
  if (!by_gpu) pool = allowed;
  const std::size_t shares = by_gpu ? there : ranks;
  const auto begin = [&](std::size_t share) {
    return pool.begin() + static_cast<std::ptrdiff_t>(share * pool.size() / shares);
  };
  return {begin(rank % shares), begin(rank % shares + 1)};
}

OnCores::OnCores(const std::vector<int>& cores) {
  if (cores.empty()) return;
  before_ = allowed_cores();
  if (!before_.empty() && !keep_to(cores)) before_.clear();
}

OnCores::~OnCores() {
  if (!before_.empty()) keep_to(before_);
}

}  // namespace damacy
