#include "damacy/device/gpu_memory.h"

#include <charconv>
#include <string_view>

#include <dlfcn.h>

#include "damacy/core/text.h"

namespace damacy {
namespace {

// As declared by nvml.h: every function returns 0 if it succeeded.
struct MemoryInfo {
  unsigned long long total, free, used;
};

class Nvml final : public GpuMemory {
 public:
  // Null if a function is missing or the library finds no driver.
  static std::shared_ptr<Nvml> open() {
    void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) return nullptr;
    auto nvml = std::make_shared<Nvml>();
    int (*init)() = nullptr;
    const bool found = find(library, "nvmlInit_v2", init) &&
                       find(library, "nvmlDeviceGetHandleByIndex_v2", nvml->by_index_) &&
                       find(library, "nvmlDeviceGetHandleByUUID", nvml->by_uuid_) &&
                       find(library, "nvmlDeviceGetMemoryInfo", nvml->memory_);
    return found && init() == 0 ? nvml : nullptr;
  }

  std::optional<std::uint64_t> free_of_index(unsigned index) override {
    void* gpu = nullptr;
    return by_index_(index, &gpu) == 0 ? free_of(gpu) : std::nullopt;
  }
  std::optional<std::uint64_t> free_of_name(const std::string& uuid) override {
    void* gpu = nullptr;
    return by_uuid_(uuid.c_str(), &gpu) == 0 ? free_of(gpu) : std::nullopt;
  }

 private:
  template <class Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  }
  std::optional<std::uint64_t> free_of(void* gpu) {
    MemoryInfo info{};
    return memory_(gpu, &info) == 0 ? std::optional<std::uint64_t>(info.free) : std::nullopt;
  }

  int (*by_index_)(unsigned, void**) = nullptr;
  int (*by_uuid_)(const char*, void**) = nullptr;
  int (*memory_)(void*, MemoryInfo*) = nullptr;
};

// The `ordinal`-th of the words; empty if there are not so many.
std::string_view word_of(std::string_view words, unsigned ordinal) {
  for (; ordinal > 0; --ordinal) {
    const std::size_t comma = words.find(',');
    if (comma == std::string_view::npos) return {};
    words.remove_prefix(comma + 1);
  }
  return trimmed(words.substr(0, words.find(',')));
}

}  // namespace

std::shared_ptr<GpuMemory> open_nvml() {
  static const std::shared_ptr<GpuMemory> nvml = Nvml::open();
  return nvml;
}

std::optional<std::uint64_t> free_gpu_memory(GpuMemory& memory, unsigned ordinal,
                                             const std::optional<std::string>& visible) {
  if (!visible) return memory.free_of_index(ordinal);
  const std::string_view name = word_of(*visible, ordinal);
  unsigned index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error == std::errc() && end == name.data() + name.size()) return memory.free_of_index(index);
  return memory.free_of_name(std::string(name));
}

}  // namespace damacy
