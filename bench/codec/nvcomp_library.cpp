#include "nvcomp_library.h"

#include <dlfcn.h>

#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::bench {
namespace {

struct Properties {
  std::uint32_t version;  // 1000 * major + 100 * minor + patch
  std::uint32_t cuda_version;
};

Error refusal(std::string text) {
  return {Status::inval, std::move(text), "arguments"};
}

// Its symbols stay its own. It stays loaded: it has a CUDA run time inside that must not go while contexts live.
void* open_file(const std::string& file) {
  if (void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return handle;
  const char* why = ::dlerror();
  throw refusal(formatted("nvCOMP does not open: {}", why != nullptr ? why : "unknown"));
}

template <class Function>
Function symbol(void* handle, const std::string& name) {
  return reinterpret_cast<Function>(::dlsym(handle, name.c_str()));
}

}  // namespace

void NvcompLibrary::Closer::operator()(void* handle) const noexcept {
  ::dlclose(handle);
}

NvcompLibrary::NvcompLibrary(const std::string& file) : handle_(open_file(file)) {
  const auto get_properties = symbol<GetProperties>(handle_.get(), "nvcompGetProperties");
  Properties properties{};
  if (get_properties == nullptr || get_properties(&properties) != kSuccess)
    throw refusal(formatted("{} is older than nvCOMP {} or is something else", file, kOldestMajor));
  const auto version = static_cast<int>(properties.version);
  const int major = version / 1000;
  version_ = formatted("{}.{}.{}", major, version % 1000 / 100, version % 100);
  if (major < kOldestMajor || major > kNewestMajor)
    throw refusal(formatted("{} is nvCOMP {}, needed is {} or {}", file, version_, kOldestMajor, kNewestMajor));
  zstd_ = find(file, "Zstd");
  lz4_ = find(file, "LZ4");
}

// The function that returns the size of temporary memory has no suffix in version 6, and takes a stream.
NvcompLibrary::Codec NvcompLibrary::find(const std::string& file, const std::string& codec) const {
  const std::string stem = formatted("nvcompBatched{}Decompress", codec);
  Codec found;
  found.decompress = symbol<Decompress>(handle_.get(), stem + "Async");
  found.temp_of_5 = symbol<GetTempOf5>(handle_.get(), stem + "GetTempSizeAsync");
  found.temp_of_6 = symbol<GetTempOf6>(handle_.get(), stem + "GetTempSize");
  if (found.decompress == nullptr || (found.temp_of_5 == nullptr && found.temp_of_6 == nullptr))
    throw refusal(formatted("{}: nvCOMP {} lacks functions of {}", file, version_, stem));
  return found;
}

std::optional<std::size_t> NvcompLibrary::temp_bytes(GpuCodec codec, std::size_t count, std::size_t largest,
                                                     std::size_t total) const {
  std::size_t bytes = 0;
  const Codec& functions = of(codec);
  const Status status = functions.temp_of_6 != nullptr
                            ? functions.temp_of_6(count, largest, Options{}, &bytes, total, nullptr)
                            : functions.temp_of_5(count, largest, Options{}, &bytes, total);
  if (status != kSuccess) return std::nullopt;
  return bytes;
}

int NvcompLibrary::decompress(GpuCodec codec, const Batch& batch, std::uint64_t stream) const {
  return of(codec).decompress(batch.sources, batch.source_bytes, batch.room, batch.produced, batch.count, batch.temp,
                              batch.temp_bytes, batch.destinations, Options{}, batch.verdicts,
                              reinterpret_cast<void*>(stream));
}

}  // namespace damacy::bench
