// stage_check: random chunks, good and damaged, through staging, a device's decoder and its copier, against the host's
// decoder. Prints one JSON object; exit status 1 if any byte or verdict differs, or a canary was overwritten.
//   stage_check [--chunks N] [--seconds S] [--threads T] [--first BATCH] [--device host|cuda] [--decoder NAME]
// Batches are numbered and always the same. It ends after N chunks or S seconds, whichever comes first. Decoders of the
// host device: "libraries", "reference" (of the CUDA kernels), or "both", by turns.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/host_device.h"
#include "stages/comparison.h"
#include "stages/reference_stream_decoder.h"

namespace damacy::stages {
namespace {

struct Options {
  std::uint64_t chunks = 20000;
  double seconds = 1e9;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::uint64_t first = 0;
  std::string device = "host", decoder = "both";
};

std::optional<Options> parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    if (i + 1 == count) return std::nullopt;
    const std::string name = words[i], value = words[i + 1];
    if (name == "--chunks")
      options.chunks = std::strtoull(value.c_str(), nullptr, 10);
    else if (name == "--seconds")
      options.seconds = std::strtod(value.c_str(), nullptr);
    else if (name == "--threads")
      options.threads = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
    else if (name == "--first")
      options.first = std::strtoull(value.c_str(), nullptr, 10);
    else if (name == "--device" && (value == "host" || value == "cuda"))
      options.device = value;
    else if (name == "--decoder" && (value == "libraries" || value == "reference" || value == "both"))
      options.decoder = value;
    else
      return std::nullopt;
  }
  return options;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Run {
 public:
  explicit Run(const Options& options)
      : options_(options), on_cuda_(options.device == "cuda"), batch_chunks_(on_cuda_ ? 2048 : 256) {
    if (on_cuda_) device_ = bind_primary_context(0);
  }

  bool go() {
    {
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < options_.threads; ++i) threads.emplace_back([this] { work(); });
    }
    report();
    return good();
  }

 private:
  bool good() const { return failure_.empty() && total_.findings() == 0 && total_.delivered > total_.chunks / 4; }
  bool over() const { return batches_ * batch_chunks_ >= options_.chunks || now() - begin_ >= options_.seconds; }

  std::vector<std::unique_ptr<Comparison>> comparisons() const {
    std::vector<std::unique_ptr<Comparison>> all;
    if (on_cuda_) {
      all.push_back(std::make_unique<Comparison>(device_, make_cuda_stream_decoder(), make_cuda_copier()));
      return all;
    }
    const auto add = [&](std::unique_ptr<StreamDecoder> decoder) {
      all.push_back(std::make_unique<Comparison>(make_host_device(), std::move(decoder), make_host_copier()));
    };
    if (options_.decoder != "reference") add(make_host_stream_decoder());
    if (options_.decoder != "libraries") add(std::make_unique<ReferenceStreamDecoder>());
    return all;
  }

  void work() {
    try {
      const auto decoders = comparisons();
      std::vector<Chunk> chunks(batch_chunks_);
      while (!over()) {
        const std::uint64_t batch = options_.first + batches_++;
        ChunkSource source(batch);
        for (Chunk& chunk : chunks) source.next(chunk);
        const Tally tally = decoders[batch % decoders.size()]->run(
            chunks, [&](std::size_t chunk, const std::string& what) { explain(batch, chunk, chunks[chunk], what); });
        const std::lock_guard lock(mutex_);
        total_.add(tally);
      }
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      failure_ = error.what();
      batches_ = ~std::uint64_t{0} / batch_chunks_;  // the others end, too
    }
  }

  void explain(std::uint64_t batch, std::size_t index, const Chunk& chunk, const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (++explained_ > 20) return;
    std::string codecs;
    for (const CodecSpec& codec : chunk.codecs->codecs()) codecs += formatted(" {}", static_cast<int>(codec.id));
    std::fprintf(stderr, "batch %llu chunk %zu, codecs%s, %zu bytes for %llu: %s\n",
                 static_cast<unsigned long long>(batch), index, codecs.c_str(), chunk.encoded.size(),
                 static_cast<unsigned long long>(chunk.bytes), what.c_str());
  }

  void report() const {
    const double seconds = now() - begin_;
    const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    if (!failure_.empty()) std::fprintf(stderr, "failed: %s\n", failure_.c_str());
    std::printf(
        "{\"stage_check\": \"%s\", \"device\": \"%s\", \"threads\": %u, \"first_batch\": %llu, \"seconds\": %.1f, "
        "\"chunks\": %llu, \"chunks_per_s\": %.0f, \"delivered\": %llu, \"host_good\": %llu, \"refused\": %llu, "
        "\"different\": %llu, \"verdicts_apart\": %llu, \"escaped_bytes\": %llu, \"good\": %s}\n",
        on_cuda_ ? "cuda" : options_.decoder.c_str(), device_ ? device_->name().c_str() : "host", options_.threads,
        number(options_.first), seconds, number(total_.chunks), static_cast<double>(total_.chunks) / seconds,
        number(total_.delivered), number(total_.host_good), number(total_.refused), number(total_.different),
        number(total_.apart), number(total_.escaped), good() ? "true" : "false");
  }

  const Options& options_;
  const bool on_cuda_;
  const std::uint64_t batch_chunks_;
  std::shared_ptr<Device> device_;
  const double begin_ = now();
  std::atomic<std::uint64_t> batches_ = 0;
  std::mutex mutex_;  // guards what follows
  Tally total_;
  std::string failure_;
  int explained_ = 0;
};

}  // namespace
}  // namespace damacy::stages

int main(int count, char** words) {
  const auto options = damacy::stages::parse(count, words);
  if (!options) {
    std::fputs(
        "usage: stage_check [--chunks N] [--seconds S] [--threads T] [--first BATCH] [--device host|cuda]\n"
        "                   [--decoder libraries|reference|both]\n",
        stderr);
    return 2;
  }
  try {
    return damacy::stages::Run(*options).go() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "failed: %s\n", error.what());
    return 1;
  }
}
