#include "nvcomp.h"

#include "damacy/core/error.h"

namespace damacy::bench {

Nvcomp::Nvcomp(const std::string& file) {
  if (file.empty()) return;
  try {
    library_ = std::make_unique<const NvcompLibrary>(file);
    state_ = library_->version();
  } catch (const Error& error) {
    state_ = error.message();
  }
}

bool Nvcomp::prepare(const std::vector<GpuFrame>& frames, std::uint64_t source, std::uint64_t destination,
                     const CudaStream& stream) {
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
  const auto bytes = library_->temp_bytes(codec_, count_, largest, total);
  temp_bytes_ = bytes.value_or(0);
  temp_.need(temp_bytes_ + 256);
  return bytes.has_value();
}

void Nvcomp::decode(const CudaStream& stream) {
  auto* lists = lists_.as<std::size_t>();
  const auto list = [&](std::size_t i) { return lists + i * count_; };
  const int error = library_->decompress(
      codec_,
      {reinterpret_cast<const void* const*>(list(0)), list(1), list(2), list(3), count_, temp_.as<void>(), temp_bytes_,
       reinterpret_cast<void* const*>(list(4)), reinterpret_cast<int*>(list(5))},
      stream.handle());
  if (error != NvcompLibrary::kSuccess) std::printf("{\"nvcomp\": \"decompress refused: %d\"}\n", error);
}

}  // namespace damacy::bench
