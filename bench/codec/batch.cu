#include <atomic>
#include <chrono>
#include <cstring>
#include <map>

#include "batch.h"

namespace damacy::bench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Each block compares one frame, and writes a word that says whether the frame differs.
__global__ void compare(const std::uint8_t* out, const std::uint8_t* expected, const GpuFrame* frames,
                        const std::uint64_t* expected_at, std::uint32_t* differs) {
  const GpuFrame& frame = frames[blockIdx.x];
  const std::uint8_t* a = out + frame.dst_offset;
  const std::uint8_t* b = expected + expected_at[blockIdx.x];
  bool bad = false;
  const std::uint64_t words = frame.dst_size / 16;  // both sides are aligned
  for (std::uint64_t i = threadIdx.x; i < words; i += blockDim.x) {
    const uint4 x = reinterpret_cast<const uint4*>(a)[i], y = reinterpret_cast<const uint4*>(b)[i];
    bad = bad || x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w;
  }
  for (std::uint64_t i = words * 16 + threadIdx.x; i < frame.dst_size; i += blockDim.x) bad = bad || a[i] != b[i];
  if (bad) differs[blockIdx.x] = 1;
}

// Each block checks the gap before one frame; the last block also checks the gap after its frame.
__global__ void count_gap(const std::uint8_t* out, const GpuFrame* frames, std::uint64_t end,
                          unsigned long long* escaped) {
  const std::uint64_t count = gridDim.x - 1, i = blockIdx.x;
  const std::uint64_t from = i == 0 ? 0 : frames[i - 1].dst_offset + frames[i - 1].dst_size;
  const std::uint64_t to = i == count ? end : frames[i].dst_offset;
  unsigned long long bad = 0;
  for (std::uint64_t k = from + threadIdx.x; k < to; k += blockDim.x) bad += out[k] != kPoison;
  if (bad != 0) atomicAdd(escaped, bad);
}

}  // namespace

void Batch::load(std::vector<Item> items) {
  items_ = std::move(items);
  frames_.assign(items_.size(), {});
  indices_.assign(items_.size(), WaveDescriptors::kFull);
  refused_.assign(items_.size(), 0);
  place();
  pack();
  make_room();
}

void Batch::place() {
  source_bytes_ = output_bytes_ = 0;
  destination_bytes_ = guard_;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    GpuFrame& frame = frames_[i];
    frame.src_offset = source_bytes_;
    frame.src_size = items_[i].encoded.size();
    frame.dst_offset = (destination_bytes_ + 15) & ~std::uint64_t{15};
    frame.dst_size = items_[i].size;
    frame.codec = items_[i].codec;
    source_bytes_ += (frame.src_size + 15) & ~std::uint64_t{15};
    destination_bytes_ = frame.dst_offset + frame.dst_size + guard_;
    output_bytes_ += frame.dst_size;
  }
  destination_bytes_ = (destination_bytes_ + 15) & ~std::uint64_t{15};
}

void Batch::pack() {
  packed_.need(source_bytes_ + WaveBuffers::kSourcePadding);
  crew_.each(
      items_.size(),
      [&](std::size_t i, std::size_t) {
        const auto bytes = items_[i].encoded;
        if (!bytes.empty()) std::memcpy(packed_.bytes().data() + frames_[i].src_offset, bytes.data(), bytes.size());
      },
      64);
  std::memset(packed_.bytes().data() + source_bytes_, 0, WaveBuffers::kSourcePadding);
  source_.need(packed_.bytes().size());
  destination_.need(destination_bytes_);
  check(cudaMemcpyAsync(source_.as<void>(), packed_.as<void>(), source_bytes_ + WaveBuffers::kSourcePadding,
                        cudaMemcpyHostToDevice, stream_.get()),
        "upload of sources");
}

// Makes descriptors large enough for the load; keeps those of the previous load if they are.
void Batch::make_room() {
  std::uint64_t blocks = 4096;
  for (const GpuFrame& frame : frames_) blocks += frame.dst_size / 4096 + 8;
  const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, 1u << 24));
  if (wave_ && items_.size() <= limits_.frames && most <= limits_.blocks) return;
  limits_.frames = static_cast<std::uint32_t>(items_.size());
  limits_.blocks = most;
  limits_.scratch_bytes = ~std::uint64_t{0};
  wave_ = std::make_unique<WaveDescriptors>(limits_);
}

double Batch::scan() {
  wave_->clear();
  const double begin = now();
  const std::size_t portions = (items_.size() + kPortion - 1) / kPortion;
  crew_.each(portions, [&](std::size_t portion, std::size_t worker) {
    std::size_t used = 0, from[kPortion];
    std::uint32_t indices[kPortion];
    for (std::size_t i = portion * kPortion; i < std::min(items_.size(), (portion + 1) * kPortion); ++i) {
      FrameScan& scan = scans_[worker][used];
      const DecodeResult result = scan_frame(items_[i].encoded, frames_[i], scan);
      refused_[i] = result.ok() ? 0 : 1;
      indices_[i] = WaveDescriptors::kFull;
      if (result.ok() && !scan.ask_host) from[used++] = i;
    }
    wave_->add(std::span(scans_[worker]).first(used), indices);
    for (std::size_t k = 0; k < used; ++k) indices_[from[k]] = indices[k];
  });
  return now() - begin;
}

void Batch::upload_image() {
  const WaveShape& shape = wave_->shape();
  const std::size_t bytes = image_bytes(shape);
  image_.need(bytes);
  wave_->write_image(image_.bytes().first(bytes));
  descriptors_.need(bytes + 256);
  scratch_.need(scratch_bytes(shape) + 256);
  status_words_.need(sizeof(std::uint32_t) * (items_.size() + 1));
  buffers_ = {source_.address(), destination_.address(), scratch_.address(), descriptors_.address(),
              status_words_.address()};
  check(cudaMemcpyAsync(descriptors_.as<void>(), image_.as<void>(), bytes, cudaMemcpyHostToDevice, stream_.get()),
        "upload of descriptors");
}

void Batch::poison() {
  check(cudaMemsetAsync(destination_.as<void>(), kPoison, destination_bytes_, stream_.get()), "poison");
  check(cudaMemsetAsync(status_words_.as<void>(), 0xff, sizeof(std::uint32_t) * items_.size(), stream_.get()),
        "poison");
}

void Batch::decode() {
  check(static_cast<cudaError_t>(decoder_.decode_wave(stream_.handle(), wave_->shape(), buffers_)), "decode_wave");
}

void Batch::fetch_status() {
  const std::size_t bytes = sizeof(std::uint32_t) * items_.size();
  status_.need(bytes);
  download(status_.as<void>(), status_words_, bytes, stream_);
}

std::size_t Batch::accepted() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) count += scanned(i) && status(i) == 0 ? 1 : 0;
  return count;
}

std::size_t Batch::count_wrong(const std::vector<const Bytes*>& expected) {
  std::map<const Bytes*, std::uint64_t> places;
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> at(items_.size());
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const auto [place, fresh] = places.try_emplace(expected[i], bytes);
    if (fresh) bytes += (expected[i]->size() + 15) & ~std::uint64_t{15};
    at[i] = place->second;
  }
  Bytes packed(bytes + 16);
  for (const auto& [from, place] : places) std::memcpy(packed.data() + place, from->data(), from->size());
  DeviceBuffer reference, frames, offsets, differs;
  reference.need(packed.size());
  frames.need(frames_.size() * sizeof(GpuFrame));
  offsets.need(at.size() * sizeof(at[0]));
  differs.need(at.size() * sizeof(std::uint32_t));
  upload(reference, packed.data(), packed.size(), stream_);
  upload(frames, frames_.data(), frames_.size() * sizeof(GpuFrame), stream_);
  upload(offsets, at.data(), at.size() * sizeof(at[0]), stream_);
  check(cudaMemsetAsync(differs.as<void>(), 0, at.size() * sizeof(std::uint32_t), stream_.get()), "clear");
  compare<<<static_cast<unsigned>(items_.size()), 256, 0, stream_.get()>>>(
      destination_.as<std::uint8_t>(), reference.as<std::uint8_t>(), frames.as<GpuFrame>(), offsets.as<std::uint64_t>(),
      differs.as<std::uint32_t>());
  check(cudaGetLastError(), "compare");
  std::vector<std::uint32_t> bad(items_.size());
  download(bad.data(), differs, bad.size() * sizeof(std::uint32_t), stream_);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) wrong += bad[i] != 0 && scanned(i) && status(i) == 0 ? 1 : 0;
  return wrong;
}

std::size_t Batch::count_escaped() {
  frames_there_.need(frames_.size() * sizeof(GpuFrame));
  escaped_.need(sizeof(unsigned long long));
  upload(frames_there_, frames_.data(), frames_.size() * sizeof(GpuFrame), stream_);
  check(cudaMemsetAsync(escaped_.as<void>(), 0, sizeof(unsigned long long), stream_.get()), "clear");
  count_gap<<<static_cast<unsigned>(items_.size() + 1), 64, 0, stream_.get()>>>(
      destination_.as<std::uint8_t>(), frames_there_.as<GpuFrame>(), destination_bytes_,
      escaped_.as<unsigned long long>());
  check(cudaGetLastError(), "count_gap");
  unsigned long long count = 0;
  download(&count, escaped_, sizeof count, stream_);
  return count;
}

std::span<const std::byte> Batch::all_output() {
  output_.need(destination_bytes_);
  download(output_.as<void>(), destination_, destination_bytes_, stream_);
  return output_.bytes().first(destination_bytes_);
}

}  // namespace damacy::bench
