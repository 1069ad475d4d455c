#include "nvcomp.h"

#include <dlfcn.h>

namespace damacy::bench {

Nvcomp::Nvcomp(const std::string& path) {
  if (path.empty()) {
    why_not_ = "no path given";
    return;
  }
  void* library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) {
    why_not_ = dlerror();
    return;
  }
  const auto find = [&](const char* decompress, const char* temp_size) {
    return Entry{reinterpret_cast<Decompress>(dlsym(library, decompress)),
                 reinterpret_cast<TempSize>(dlsym(library, temp_size))};
  };
  zstd_ = find("nvcompBatchedZstdDecompressAsync", "nvcompBatchedZstdDecompressGetTempSizeAsync");
  lz4_ = find("nvcompBatchedLZ4DecompressAsync", "nvcompBatchedLZ4DecompressGetTempSizeAsync");
  if (zstd_.decompress == nullptr || lz4_.decompress == nullptr) why_not_ = "an entry point is missing";
}

void Nvcomp::prepare(const std::vector<GpuFrame>& frames, std::uint64_t source, std::uint64_t destination,
                     const Stream& stream) {
  count_ = frames.size();
  codec_ = frames.front().codec;
  std::vector<std::uint64_t> lists(count_ * 6);
  std::size_t largest = 0, total = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    lists[i] = source + frames[i].src_offset;
    lists[count_ + i] = frames[i].src_size;
    lists[2 * count_ + i] = frames[i].dst_size;
    lists[4 * count_ + i] = destination + frames[i].dst_offset;
    largest = std::max<std::size_t>(largest, frames[i].dst_size);
    total += frames[i].dst_size;
  }
  lists_.need(lists.size() * sizeof(lists[0]));
  upload(lists_, lists.data(), lists.size() * sizeof(lists[0]), stream);
  if (entry(codec_).temp_size(count_, largest, Options{}, &temp_bytes_, total) != 0)
    std::printf("{\"nvcomp\": \"temp size refused\"}\n");
  temp_.need(temp_bytes_ + 256);
}

void Nvcomp::decode(const Stream& stream) {
  std::uint64_t* lists = lists_.as<std::uint64_t>();
  const auto list = [&](int i) { return lists + static_cast<std::size_t>(i) * count_; };
  const int error = entry(codec_).decompress(
      reinterpret_cast<const void* const*>(list(0)), reinterpret_cast<const std::size_t*>(list(1)),
      reinterpret_cast<const std::size_t*>(list(2)), reinterpret_cast<std::size_t*>(list(3)), count_, temp_.as<void>(),
      temp_bytes_, reinterpret_cast<void* const*>(list(4)), Options{}, reinterpret_cast<int*>(list(5)), stream.get());
  if (error != 0) std::printf("{\"nvcomp\": \"decompress refused: %d\"}\n", error);
}

}  // namespace damacy::bench
