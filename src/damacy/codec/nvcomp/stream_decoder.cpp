// The stream decoder that lets nvCOMP decode: lists before, status words after, nvCOMP's calls between.
#include <cstdint>
#include <utility>

#include "damacy/codec/nvcomp/frames.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/device/trace.h"

namespace damacy {
namespace {

using nvcomp::Frames;
using nvcomp::Round;
using nvcomp::View;

constexpr std::byte kNoVerdict{0xff};  // refused, so that the host decodes frames that were not decoded

void require_room(const char* what, std::uint64_t bytes, std::uint64_t needed) {
  if (bytes < needed)
    throw Error(Status::inval, formatted("nvCOMP: {} of {} bytes, {} are needed", what, bytes, needed), "buffers");
}

// All calls of one wave.
struct Calls {
  View view;
  std::size_t first_lz4 = 0;
  std::span<std::byte> temp;
  std::vector<Round> zstd, lz4;
};

View view_of(const Frames& frames, const WaveMemory& memory) {
  const nvcomp::ScratchLayout at(frames.packed());
  const auto scratch = [&](std::size_t offset) { return static_cast<void*>(memory.scratch.data() + offset); };
  View view{};
  view.records = reinterpret_cast<const nvcomp::Record*>(memory.image.data());
  view.packed = static_cast<nvcomp::u32>(frames.packed());
  view.count = frames.count();
  view.source = reinterpret_cast<const nvcomp::u8*>(memory.source.data());
  view.destination = reinterpret_cast<nvcomp::u8*>(memory.destination.data());
  view.lists = {static_cast<const void**>(scratch(at.sources)),      static_cast<void**>(scratch(at.destinations)),
                static_cast<std::size_t*>(scratch(at.source_bytes)), static_cast<std::size_t*>(scratch(at.room)),
                static_cast<std::size_t*>(scratch(at.produced)),     static_cast<int*>(scratch(at.verdicts))};
  view.status = reinterpret_cast<nvcomp::u32*>(memory.status.data());
  return view;
}

Calls calls_of(const Frames& frames, const WaveMemory& memory) {
  Calls calls;
  calls.view = view_of(frames, memory);
  calls.temp = memory.scratch.subspan(nvcomp::ScratchLayout(frames.packed()).temp);
  calls.zstd = frames.rounds(GpuCodec::zstd, calls.temp.size());
  calls.lz4 = frames.rounds(GpuCodec::lz4, calls.temp.size());
  calls.first_lz4 = frames.zstd_count();
  return calls;
}

// A call that nvCOMP refuses leaves its frames without a verdict: the host decodes them.
void decompress(const NvcompLibrary& library, const Calls& calls, std::uint64_t stream) {
  const nvcomp::Lists& lists = calls.view.lists;
  const auto run = [&](GpuCodec codec, const Round& round, std::size_t first) {
    first += round.first;
    static_cast<void>(library.decompress(
        codec,
        {lists.sources + first, lists.source_bytes + first, lists.room + first, lists.produced + first, round.count,
         calls.temp.data(), round.temp_bytes, lists.destinations + first, lists.verdicts + first},
        stream));
  };
  for (const Round& round : calls.zstd) run(GpuCodec::zstd, round, 0);
  for (const Round& round : calls.lz4) run(GpuCodec::lz4, round, calls.first_lz4);
}

int run_on_device(const NvcompLibrary& library, const Calls& calls, std::uint64_t stream) {
  if (const int error = launch_prepare(calls.view, stream); error != 0) return error;
  decompress(library, calls, stream);
  return launch_conclude(calls.view, stream);
}

void run_on_host(const NvcompLibrary& library, const Calls& calls) {
  for (nvcomp::u32 i = 0; i < calls.view.packed; ++i) describe(calls.view, i);
  for (nvcomp::u32 i = calls.view.packed; i < calls.view.count; ++i) copy_raw(calls.view, i, 0, 1);
  decompress(library, calls, 0);
  for (nvcomp::u32 i = 0; i < calls.view.count; ++i) conclude(calls.view, i);
}

class NvcompStreamDecoder final : public StreamDecoder {
 public:
  explicit NvcompStreamDecoder(std::shared_ptr<const NvcompLibrary> library) : library_(std::move(library)) {}

  std::unique_ptr<FrameList> make_list(const FrameLimits& limits) override {
    return std::make_unique<Frames>(library_, limits);
  }

  void enqueue(Stream& stream, const FrameList& list, const WaveMemory& memory) override {
    const auto& frames = static_cast<const Frames&>(list);
    if (frames.count() == 0) return;
    const TraceRange stage("damacy decode");
    require_room("image", memory.image.size(), frames.image_bytes());
    require_room("scratch", memory.scratch.size(), frames.scratch_bytes());
    require_room("status words", memory.status.size(), std::uint64_t{4} * frames.count());
    stream.fill(memory.status, kNoVerdict);
    const Calls calls = calls_of(frames, memory);
    Work work;
    work.on_host = [library = library_, calls] { run_on_host(*library, calls); };
    work.launch = [library = library_, calls](std::uint64_t handle) { return run_on_device(*library, calls, handle); };
    stream.enqueue(std::move(work));
  }

 private:
  std::shared_ptr<const NvcompLibrary> library_;
};

}  // namespace

std::unique_ptr<StreamDecoder> make_nvcomp_stream_decoder(std::shared_ptr<const NvcompLibrary> library) {
  return std::make_unique<NvcompStreamDecoder>(std::move(library));
}

}  // namespace damacy
