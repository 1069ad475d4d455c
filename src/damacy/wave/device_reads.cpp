#include "damacy/wave/device_reads.h"

#include <algorithm>
#include <utility>

#include "damacy/core/error.h"

namespace damacy {
namespace {

Error stopped_meanwhile() {
  return Error(Status::shutdown, "the reads were stopped", "closed");
}

}  // namespace

// A wave of much memory has enough frames to keep a large GPU busy; a small GPU or host must have most of its own left.
MemoryPlan plan_device_reads(const Machine& machine) {
  constexpr std::uint64_t kLeastGpu = 512 << 20, kMostGpu = std::uint64_t{4} << 30, kPartOfGpu = 32;
  constexpr std::uint64_t kLeastHost = 256 << 20, kMostHost = 768 << 20, kPartOfHost = 32;
  Config config;
  config.device_buffer_bytes =
      static_cast<std::int64_t>(std::clamp(machine.gpu_bytes.value_or(0) / kPartOfGpu, kLeastGpu, kMostGpu));
  config.host_buffer_bytes =
      static_cast<std::int64_t>(std::clamp(machine.host_bytes.value_or(0) / kPartOfHost, kLeastHost, kMostHost));
  Machine with_gpu = machine;
  with_gpu.gpu = true;
  return plan_memory(config, with_gpu);
}

DeviceReads::DeviceReads(DeviceParts parts) : waves_(std::move(parts), board_) {
  former_ = Thread("damacy-form", [this] { form_all(); });
}

void DeviceReads::Read::fail(const Error& why) noexcept {
  for (const auto& one : chunks) one->fail_all(why);
}

void DeviceReads::add(std::vector<std::shared_ptr<WantedChunks>> chunks, Readers& readers, DecodeMemory memory) {
  Read read{std::move(chunks), {}, &readers, std::move(memory)};
  for (const auto& one : read.chunks) read.tasks.push_back(one->new_task());
  {
    const Lock lock(mutex_);
    if (!stopped_) {
      waiting_.push_back(std::move(read));
      changed_.notify_one();
      return;
    }
  }
  read.fail(stopped_meanwhile());
}

std::optional<DeviceReads::Read> DeviceReads::take_first() noexcept {
  if (waiting_.empty()) return std::nullopt;
  Read read = std::move(waiting_.front());
  waiting_.pop_front();
  return read;
}

void DeviceReads::form_all() {
  const std::stop_token stop = stop_.get_token();
  const auto next = [&]() -> std::optional<Read> {
    Lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this]() DAMACY_REQUIRES(mutex_) { return !waiting_.empty(); })) return std::nullopt;
    return take_first();
  };
  while (auto read = next()) form(*read);
}

void DeviceReads::form(Read& read) noexcept {
  const auto failure = failure_of([&] { waves_.add(read.chunks, *read.readers, read.memory, stop_.get_token()); });
  if (failure) read.fail(*failure);
  const bool is_last = [&] {
    const Lock lock(mutex_);
    return waiting_.empty();
  }();
  if (is_last)
    waves_.seal();
  else
    waves_.end_group();
}

void DeviceReads::stop() noexcept {
  {
    const Lock lock(mutex_);
    stopped_ = true;
  }
  stop_.request_stop();
  former_.join();
  const auto next = [this] {
    const Lock lock(mutex_);
    return take_first();
  };
  while (auto read = next()) read->fail(stopped_meanwhile());
  waves_.finish();
}

DeviceReads::Counters DeviceReads::counters(bool reset) {
  const Metric copies = board_.read().h2d;
  if (reset) board_.reset();
  return {static_cast<std::int64_t>(copies.input_bytes), copies.count};
}

}  // namespace damacy
