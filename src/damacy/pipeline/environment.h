// What a pipeline uses besides its settings: for Python's bindings, and for tests. Not installed: a C++ program makes a
// context current before it makes a pipeline, sets Config::keep_bytes, and waits with a timeout. Only holds them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace damacy {

class Alloc;
class Clock;
class Copier;
class Device;
class Store;

struct PipelineEnvironment {
  // The device for batches, instead of Config::device. For tests: a host device.
  std::shared_ptr<Device> device;
  // Who places on that device; null: its own copier. For tests.
  std::function<std::unique_ptr<Copier>()> make_copier;
  // Batches with fewer decoded bytes are decoded on the host, although there is a device. Empty: where the host is done
  // sooner.
  std::optional<std::uint64_t> device_from_bytes;
  // Called if Config::device is automatic and no CUDA context is current; returns whether it made one current.
  std::function<bool()> make_context_current;
  std::shared_ptr<Alloc> alloc;  // null: pages of the system
  // Config::keep_bytes that is not set is chosen from the memory there is, not 0: the consumer is a loop that may keep
  // batches.
  bool keeps_batches = false;
  // Opens the store of a path; null: directories of the file system.
  std::function<std::shared_ptr<Store>(const std::string& path)> make_store;
  std::shared_ptr<const Clock> clock;  // of deadlines of storage; null: the steady one
  // Called on the waiting thread, without locks, about twenty times a second. May throw; nothing is lost then.
  std::function<void()> while_waiting;
};

}  // namespace damacy
