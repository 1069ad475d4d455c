#include "damacy/batch/machine_settings.h"

#include <algorithm>

#include "damacy/batch/memory_plan.h"
#include "damacy/core/formatted.h"
#include "damacy/core/size_text.h"

namespace damacy {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
constexpr std::uint64_t kLeastBuffer = 64 * kMib;
// Of a host that only decodes, and of one that feeds a GPU: more threads were never faster.
constexpr std::size_t kMostReaders = 128;
constexpr std::size_t kMostReadersForGpu = 64;
// A stack of 8 MiB, and the 128 MiB that glibc maps to align a thread's heap.
constexpr std::uint64_t kAddressesOfThread = 136 * kMib;

// Whole MiB of `bytes`, at most `most`, but never less than chunks need.
std::int64_t bounded(std::uint64_t bytes, std::uint64_t most, std::int64_t chunk_bytes) {
  const std::uint64_t least = std::max(kLeastBuffer, static_cast<std::uint64_t>(buffer_bytes_for(chunk_bytes)));
  return static_cast<std::int64_t>(std::max(least, std::min(bytes, most) / kMib * kMib));
}

void choose_threads(std::vector<Choice>& choices, const Machine& machine) {
  std::uint64_t most = std::min(machine.rank_cores, machine.gpu ? kMostReadersForGpu : kMostReaders);
  std::string why = machine.why_cores;
  if (const auto& limited = machine.addresses) {
    const std::uint64_t left = limited->limit - std::min(limited->limit, limited->in_use);
    const std::uint64_t threads = std::max<std::uint64_t>(1, left / 2 / kAddressesOfThread);
    if (threads < most) why = formatted("half of {} left of the address-space limit (ulimit -v)", size_text(left));
    most = std::min(most, threads);
  }
  const auto readers = static_cast<std::int64_t>(most);
  if (machine.gpu) {
    choices.push_back({"n_io_threads", readers, formatted("{}; two thirds read at a time", why)});
    choices.push_back({"n_compute_threads", readers - 1, "for what a GPU does not decode, one less than readers"});
  } else {
    choices.push_back({"n_io_threads", readers, formatted("{}; they read, decode and place", why)});
    choices.push_back({"n_compute_threads", 0, "readers decode on the host"});
  }
}

Choice host_buffer(const Machine& machine, std::int64_t chunk_bytes) {
  const std::uint64_t most = machine.gpu ? 2 * kGib : kGib;
  const std::uint64_t free = machine.host_bytes.value_or(0);
  return {"host_buffer_bytes", bounded(free / 8, most, chunk_bytes),
          formatted("an eighth of {} {}, at most {}", size_text(free), machine.why_memory, size_text(most))};
}

Choice device_buffer(const Machine& machine, const SettingsAsked& asked) {
  const char* field = "device_buffer_bytes";
  if (!machine.gpu) {
    const std::uint64_t free = machine.host_bytes.value_or(0);
    return {field, bounded(free / 4, 4 * kGib, asked.chunk_bytes),
            formatted("a quarter of {} {}, at most {}", size_text(free), machine.why_memory, size_text(4 * kGib))};
  }
  std::uint64_t most = 6 * kGib;
  if (asked.max_gpu_memory_bytes > 0) most = std::min(most, static_cast<std::uint64_t>(asked.max_gpu_memory_bytes) / 2);
  if (!machine.gpu_bytes) {
    most = std::min(most, 4 * kGib);
    return {field, bounded(most, most, asked.chunk_bytes), "the default: the GPU's free memory is unknown"};
  }
  return {field, bounded(*machine.gpu_bytes / 4, most, asked.chunk_bytes),
          formatted("a quarter of {} free on the GPU, at most {}", size_text(*machine.gpu_bytes), size_text(most))};
}

Choice slots(const Machine& machine) {
  if (machine.gpu) return {"n_batches", 2, "one held, one in production: reading and decoding run ahead of slots"};
  return {"n_batches", 4, "one held, three in production: threads do not wait where a batch ends"};
}

}  // namespace

std::vector<Choice> choose_settings(const Machine& machine, const SettingsAsked& asked) {
  SettingsAsked bounded_asked = asked;
  bounded_asked.chunk_bytes = std::clamp<std::int64_t>(asked.chunk_bytes, 0, kMaxChunkUncompressedBytes);
  std::vector<Choice> choices;
  choose_threads(choices, machine);
  choices.push_back(host_buffer(machine, bounded_asked.chunk_bytes));
  choices.push_back(device_buffer(machine, bounded_asked));
  choices.push_back(slots(machine));
  return choices;
}

}  // namespace damacy
